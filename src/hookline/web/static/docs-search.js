// Searches the documentation as one types: in an index that is loaded with the first letter, from this server or folder.
(() => {
  const SHOWN_MAX = 12;
  const form = document.querySelector("[data-docs-search]");
  if (!form) return;
  const { root, index, suffix = "" } = form.dataset;
  const field = form.querySelector("input");
  const box = form.querySelector(".found");
  const list = box.querySelector("ul");
  const said = box.querySelector("[role=status]");
  let entries = null;
  form.hidden = false;

  const load = () => {
    if (entries) return;
    entries = [];
    const script = document.createElement("script"); // not fetch: a page that is a file may not
    script.src = index;
    script.onload = () => {
      entries = hooklineDocs.map(([address, title, page, summary, words]) => ({
        address, title, page, summary,
        words: words.split(" "), // a name such as deliver.timeout is found by its parts too
        heads: parts(title), about: parts(page), begin: parts(summary ?? ""), name: title.toLowerCase(),
      }));
      show();
    };
    script.onerror = () => { entries = null; said.textContent = "The search cannot be loaded."; };
    document.head.append(script);
  };
  const parts = (text) => text.toLowerCase().split(/[^\p{L}\p{N}_.]+/u).filter(Boolean);
  const begins = (words, part) => words.some((word) => word.startsWith(part));

  // Every word must be there. One in a title counts more than one in the text, one in the first
  // sentences a little more, and a page more than its sections.
  const score = (entry, asked, wanted) => {
    const isPage = !entry.address.includes("#");
    let sum = isPage ? 8 : 0;
    if (entry.name === asked) sum += isPage ? 60 : 16;
    else if (entry.name.startsWith(asked)) sum += isPage ? 24 : 4;
    for (const part of wanted) {
      if (entry.heads.includes(part)) sum += 14;
      else if (begins(entry.heads, part)) sum += 10;
      else if (begins(entry.about, part)) sum += 5;
      else if (entry.begin.includes(part)) sum += 4;
      else if (entry.words.includes(part)) sum += 3;
      else if (begins(entry.words, part)) sum += 2;
      else if (part.length > 2 && entry.words.some((word) => word.includes(part))) sum += 1;
      else return 0;
    }
    if (entry.address.startsWith("reference/api#")) sum -= 6; // it has a section for every word
    return sum - entry.heads.length / 100;
  };

  const text = (tag, words) => {
    const element = document.createElement(tag);
    element.textContent = words;
    return element;
  };
  const show = () => {
    const asked = field.value.trim().toLowerCase();
    const wanted = parts(asked);
    box.hidden = wanted.length === 0;
    if (box.hidden) return;
    const found = (entries ?? []).map((entry) => [score(entry, asked, wanted), entry]).filter(([sum]) => sum > 0);
    found.sort(([one], [other]) => other - one);
    const shown = found.slice(0, SHOWN_MAX);
    list.replaceChildren(...shown.map(([, entry]) => {
      const [path, anchor] = entry.address.split("#");
      const link = document.createElement("a");
      link.href = `${root}${path}${suffix}${anchor ? `#${anchor}` : ""}`;
      link.append(text("b", entry.title), text("small", entry.page));
      if (entry.summary) link.append(text("small", entry.summary));
      const item = document.createElement("li");
      item.append(link);
      return item;
    }));
    const more = found.length > shown.length ? `, the first ${shown.length} of them here` : "";
    said.textContent = found.length ? `${found.length} result${found.length === 1 ? "" : "s"}${more}` : "Nothing found";
  };

  const close = () => { box.hidden = true; };
  const move = (by) => {
    const all = [field, ...list.querySelectorAll("a")];
    const at = Math.max(all.indexOf(document.activeElement), 0);
    all[(at + by + all.length) % all.length].focus();
  };
  field.addEventListener("focus", () => { load(); show(); });
  field.addEventListener("input", () => { load(); show(); });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelector("a")?.click();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { field.focus(); close(); return; }
    if (box.hidden || (event.key !== "ArrowDown" && event.key !== "ArrowUp")) return;
    event.preventDefault();
    move(event.key === "ArrowDown" ? 1 : -1);
  });
  list.addEventListener("click", (event) => { if (event.target.closest("a")) close(); });
  form.addEventListener("focusout", (event) => { if (event.relatedTarget && !form.contains(event.relatedTarget)) close(); });
  document.addEventListener("pointerdown", (event) => { if (!form.contains(event.target)) close(); });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
    if ((event.key === "/" && !isTyping) || ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k")) {
      event.preventDefault();
      field.focus();
      field.select();
    }
  });
})();
