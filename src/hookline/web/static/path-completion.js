// Paths of events that were really seen, offered while one is typed: "$.pro…" and {{pro…}} in mappings, pro… in
// conditions. Arrows choose, Enter or Tab takes, Escape leaves it be.
(() => {
  const { make } = hookline.elements;
  const SHOWN_MAX = 8;
  const DEPTH_MAX = 6;
  const PATHS_MAX = 500;
  const PLACES = {
    json: [/"\$\.([^"\s]*)$/, /\{\{\{?\s*([^{}"\s]*)$/],
    template: [/\{\{\{?\s*([^{}\s]*)$/],
    mapped: [/^\$\.(\S*)$/, /\{\{\{?\s*([^{}\s]*)$/],
    expression: [/(?:^|[\s(])([A-Za-z_][\w.]*)$/],
  };
  let count = 0;

  // Every path of a value with an example of what stands there.
  const collect = (value, found, before = "", depth = 0) => {
    if (depth > DEPTH_MAX || found.size >= PATHS_MAX || value === null || typeof value !== "object") return;
    for (const [key, inner] of Object.entries(value)) {
      if (!/^[\w $-]+$/.test(key)) continue; // what needs quotes is not offered
      const path = before ? `${before}.${key}` : key;
      if (inner !== null && typeof inner === "object") {
        if (!found.has(path)) found.set(path, Array.isArray(inner) ? "list" : "object");
        if (!Array.isArray(inner)) collect(inner, found, path, depth + 1);
        else if (inner.length) collect({ 0: inner[0] }, found, path, depth + 1);
      } else if (!found.has(path) || found.get(path) === "") found.set(path, String(inner).slice(0, 40));
    }
  };

  const attach = (field, mode, pathsOf) => {
    const id = `paths-${++count}`;
    const list = make("ul", { id, class: "paths", role: "listbox", "aria-label": "Paths of recent events", hidden: true });
    const said = make("span", { class: "unseen", role: "status" });
    field.setAttribute("aria-autocomplete", "list");
    field.setAttribute("aria-controls", id);
    let chosen = -1;
    let typed = null;

    const close = () => {
      list.hidden = true;
      field.removeAttribute("aria-activedescendant");
      said.textContent = "";
      chosen = -1;
    };
    const mark = (index) => {
      chosen = index;
      [...list.children].forEach((each, at) => each.setAttribute("aria-selected", String(at === index)));
      list.children[index]?.scrollIntoView({ block: "nearest" });
      field.setAttribute("aria-activedescendant", `${id}-${index}`);
    };
    const take = (index) => {
      const path = list.children[index]?.dataset.path;
      if (!path) return;
      const begin = field.selectionStart - typed.length;
      const after = field.value.slice(field.selectionStart);
      const before = field.value.slice(0, begin);
      const opens = /\{\{\{?\s*$/.exec(before);
      const closing = opens ? (after.startsWith("}") ? "" : "}".repeat(opens[0].trim().length)) : mode === "json" && !after.startsWith('"') ? '"' : "";
      field.setRangeText(path + closing, begin, field.selectionStart, "end");
      close();
      field.dispatchEvent(new Event("input", { bubbles: true }));
      close();
    };
    const offer = () => {
      const before = field.value.slice(0, field.selectionStart);
      const found = PLACES[mode].map((place) => place.exec(before)).find(Boolean);
      typed = found ? found[1] : null;
      if (typed === null || field.selectionStart !== field.selectionEnd) { close(); return; }
      const asked = typed.toLowerCase();
      const every = [...pathsOf()].filter(([path]) => path !== typed);
      const begins = every.filter(([path]) => path.toLowerCase().startsWith(asked));
      const holds = every.filter(([path]) => !path.toLowerCase().startsWith(asked) && path.toLowerCase().includes(asked));
      const shown = [...begins, ...holds].slice(0, SHOWN_MAX);
      if (!shown.length) { close(); return; }
      list.replaceChildren(...shown.map(([path, example], index) => {
        const option = make("li", { id: `${id}-${index}`, role: "option", "aria-selected": "false", "data-path": path },
          make("bdi", { class: "mono" }, path), make("span", { class: "muted" }, ` ${example}`));
        option.addEventListener("pointerdown", (event) => { event.preventDefault(); take(index); });
        return option;
      }));
      list.hidden = false;
      said.textContent = `${shown.length} ${shown.length === 1 ? "path" : "paths"}. Use the arrow keys.`;
      mark(0);
    };

    field.addEventListener("input", (event) => { if (event.isTrusted) offer(); });
    field.addEventListener("blur", close);
    field.addEventListener("keydown", (event) => {
      if (list.hidden) {
        if (event.key === " " && event.ctrlKey) { event.preventDefault(); offer(); }
        return;
      }
      const moves = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (moves) mark((chosen + moves + list.children.length) % list.children.length);
      else if (event.key === "Enter" || event.key === "Tab") take(chosen);
      else if (event.key === "Escape") close();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    return make("div", { class: "completes" }, field, list, said);
  };

  hookline.paths = { collect, attach };
})();
