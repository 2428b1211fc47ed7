// <json-tree>: a folded tree of a JSON value with copy value and copy path; long strings are cut and open on demand.
(() => {
  const { make, copyable, parse, Exact } = hookline.elements;
  const STRING_SHOWN_MAX = 200;
  const CHILDREN_SHOWN_MAX = 200;
  const OPEN_DEPTH = 2;
  const OPEN_CHILDREN_MAX = 30;

  class JsonTree extends HTMLElement {
    #value;

    connectedCallback() {
      // Rendered by the server as text, drawn as a tree here.
      const source = this.querySelector("pre");
      if (source && this.#value === undefined) {
        try { this.value = parse(source.textContent); } catch { /* not JSON: it stays as it is */ }
      }
    }

    get value() { return this.#value; }

    set value(value) {
      this.#value = value;
      this.replaceChildren(make("ul", { class: "tree" }, node(null, value, "", 0)));
    }
  }

  const node = (key, value, path, depth) => {
    const item = make("li", {});
    const entries = entriesOf(value);
    const name = key === null ? null : make("span", { class: "tree-key" }, make("bdi", {}, String(key)), ": ");
    if (!entries) {
      item.append(make("div", { class: "tree-line" }, name, leaf(value), tools(value, path)));
      return item;
    }
    const open = depth < OPEN_DEPTH && entries.length <= OPEN_CHILDREN_MAX;
    const count = `${entries.length} ${Array.isArray(value) ? "item" : "field"}${entries.length === 1 ? "" : "s"}`;
    const shape = Array.isArray(value) ? "[ ]" : "{ }";
    const summary = make("summary", {}, name, make("span", { class: "muted" }, `${shape} ${count}`));
    const details = make("details", { open }, summary);
    const fill = () => {
      if (details.querySelector(":scope > ul")) return;
      details.append(branch(entries, path, Array.isArray(value), depth));
    };
    if (open) fill();
    details.addEventListener("toggle", fill);
    item.append(details, tools(value, path)); // beside it: buttons within a summary are out of reach for some
    return item;
  };

  const branch = (entries, path, isArray, depth) => {
    const list = make("ul", {});
    const grow = (from) => {
      for (const [key, value] of entries.slice(from, from + CHILDREN_SHOWN_MAX)) {
        list.append(node(key, value, step(path, key, isArray), depth + 1));
      }
      const left = entries.length - from - CHILDREN_SHOWN_MAX;
      if (left <= 0) return;
      const more = make("button", { type: "button", class: "quiet" }, `${left} more`);
      const item = make("li", {}, more);
      more.addEventListener("click", () => { item.remove(); grow(from + CHILDREN_SHOWN_MAX); });
      list.append(item);
    };
    grow(0);
    return list;
  };

  const entriesOf = (value) => {
    if (Array.isArray(value)) return value.map((each, index) => [index, each]);
    return value && typeof value === "object" && !(value instanceof Exact) ? Object.entries(value) : null;
  };

  const leaf = (value) => {
    if (typeof value !== "string") {
      const text = value instanceof Exact ? value.source : String(value);
      return make("span", { class: value === null ? "tree-null" : "tree-plain" }, text);
    }
    const shown = make("bdi", { class: "tree-string" });
    const quote = (text) => JSON.stringify(text);
    if (value.length <= STRING_SHOWN_MAX) { shown.textContent = quote(value); return shown; }
    shown.textContent = quote(value.slice(0, STRING_SHOWN_MAX)).slice(0, -1);
    const more = make("button", { type: "button", class: "quiet" }, `… all ${value.length} characters`);
    more.addEventListener("click", () => { shown.textContent = quote(value); more.remove(); });
    return make("span", {}, shown, more);
  };

  const tools = (value, path) => make("span", { class: "tree-tools" },
    copyable("value", () => textOf(value)), path ? copyable("path", () => path) : null);

  const textOf = (value) => (typeof value === "string" ? value : written(value));
  const written = (value) => {
    if (value instanceof Exact) return value.source;
    const entries = entriesOf(value);
    if (!entries) return JSON.stringify(value);
    const parts = entries.map(([key, each]) => (Array.isArray(value) ? "" : `${JSON.stringify(key)}:`) + written(each));
    return Array.isArray(value) ? `[${parts.join(",")}]` : `{${parts.join(",")}}`;
  };

  // As filters write it: dots between names, a backslash before what is no part of one; brackets for items.
  const step = (path, key, isArray) => {
    if (isArray) return `${path}[${key}]`;
    const name = key.replace(/[^\p{L}\p{N}_$-]/gu, "\\$&").replace(/^[\d-]/, path ? "$&" : "\\$&");
    return path ? `${path}.${name}` : name;
  };

  customElements.define("json-tree", JsonTree);
})();
