// The keyboard: / searches, j and k walk the rows, ? helps, g and a letter goes to a page of the rail.
(() => {
  const JUMP_MS = 1500;
  let jumpUntil = 0;

  const isTyping = (element) => element.matches("input, textarea, select, [contenteditable]");
  const rows = () => [...document.querySelectorAll("main .row")].filter((row) => row.checkVisibility());

  const walk = (step) => {
    const all = rows();
    const at = all.indexOf(document.activeElement);
    const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1)];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };

  const press = (key) => {
    if (jumpUntil > Date.now()) {
      jumpUntil = 0;
      const stop = document.querySelector(`[data-jump="${CSS.escape(key)}"]`);
      if (stop) { stop.click(); return true; }
    }
    switch (key) {
      case "/": {
        const search = document.querySelector("[data-search]");
        search?.focus();
        search?.select?.(); // a choice has no text to select
        return Boolean(search);
      }
      case "?": document.getElementById("help")?.showModal(); return true;
      case "g": jumpUntil = Date.now() + JUMP_MS; return true;
      case "j": walk(1); return true;
      case "k": walk(-1); return true;
      default: return false;
    }
  };

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    if (press(event.key)) event.preventDefault();
  });
})();
