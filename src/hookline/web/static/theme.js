// Applies the chosen theme before the first paint; without a choice the system's counts.
(() => {
  const root = document.documentElement;
  const order = ["auto", "light", "dark"];
  const stored = () => {
    try { return localStorage.getItem("theme") || "auto"; } catch { return "auto"; }
  };
  const apply = (theme) => {
    if (theme === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", theme);
  };
  apply(stored());
  document.addEventListener("DOMContentLoaded", () => {
    const buttons = document.querySelectorAll("[data-theme-switch]");
    const label = () => {
      const words = `Theme: ${stored()}`;
      for (const button of buttons) {
        button.title = words;
        button.setAttribute("aria-label", words);
        const text = button.querySelector("span");
        if (text) text.textContent = words;
      }
    };
    label();
    for (const button of buttons) {
      button.addEventListener("click", () => {
        const next = order[(order.indexOf(stored()) + 1) % order.length];
        try { localStorage.setItem("theme", next); } catch { /* private mode: for this page only */ }
        apply(next);
        label();
      });
    }
  });
})();
