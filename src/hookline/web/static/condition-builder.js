// <condition-builder>: the condition of an audience as a sentence, with its text below, which may be edited instead.
// What it comes to is in a hidden field of the form; what the API refuses is shown at the clause it belongs to.
(() => {
  const { make } = hookline.elements;
  const { button, field, area, select, offers } = hookline.controls;
  const { named, missing, only, often, times, where, lists } = hookline.eventClause;
  const DEPTH_SHOWN_MAX = 3; // groups in each other; what lies deeper is a text
  const GROUPS = [["all", "all of these hold"], ["any", "any of these holds"], ["none", "none of these holds"]];
  const JOINS = { all: "and", any: "or", none: "nor" };
  const KINDS = [
    ["event", "who did"], ["page", "who viewed a page"], ["screen", "who viewed a screen"], ["if", "with"],
    ["audience", "who belong to"],
  ];
  const ROOTS = [["traits", "trait"], ["groupTraits", "group trait"], ["computed", "computed trait"]];
  const NEW = {
    event: () => ({ event: "", within: "30d" }), page: () => ({ page: "", within: "30d" }),
    screen: () => ({ screen: "", within: "30d" }),
    if: () => ({ if: "" }),
    audience: (choices) => ({ audience: only(choices.audiences)?.id || "" }),
  };

  // A node is a group {group, terms, explicit} or a clause {clause} as the API has it, or {text} for what a row cannot
  // say: groups that are too deep, and a first and a last time at once.
  let numbers = 0;
  const nodeOf = (condition, depth = 0) => {
    const number = ++numbers;
    const group = ["all", "any"].find((key) => Array.isArray(condition[key]));
    const isClause = !group && !condition.not;
    if (isClause ? condition.first && condition.last : depth >= DEPTH_SHOWN_MAX) return { number, text: JSON.stringify(condition) };
    if (isClause) return { number, clause: structuredClone(condition), kept: {} };
    const terms = group ? condition[group] : Array.isArray(condition.not.any) ? condition.not.any : [condition.not];
    return { number, group: group || "none", explicit: true, terms: terms.map((term) => nodeOf(term, depth + 1)) };
  };
  const rootOf = (condition) => {
    const node = nodeOf(condition);
    return node.group ? node : { number: ++numbers, group: "all", explicit: false, terms: [node] };
  };

  // The condition as the API takes it; each node learns its place in it. Throws for a text that is no JSON.
  const written = (node, pointer) => {
    node.pointer = pointer;
    if (node.clause) return node.clause;
    if (node.text !== undefined) return JSON.parse(node.text);
    const alone = node.terms.length === 1;
    if (node.group === "none") {
      const within = (at) => (alone ? `${pointer}/not` : `${pointer}/not/any/${at}`);
      const terms = node.terms.map((term, at) => written(term, within(at)));
      return { not: alone ? terms[0] : { any: terms } };
    }
    if (alone && !node.explicit) return written(node.terms[0], pointer);
    return { [node.group]: node.terms.map((term, at) => written(term, `${pointer}/${node.group}/${at}`)) };
  };

  // An id as a name in a path: of what ids may hold, only a dot would end it.
  const escaped = (id) => id.replaceAll(".", "\\.");

  // One clause a line.
  const pretty = (condition, indent = "") => {
    const group = ["all", "any"].find((key) => Array.isArray(condition[key]));
    if (group) {
      const inner = condition[group].map((term) => `${indent}  ${pretty(term, `${indent}  `)}`);
      return `{"${group}": [\n${inner.join(",\n")}\n${indent}]}`;
    }
    if (condition.not) return `{"not": ${pretty(condition.not, indent)}}`;
    return JSON.stringify(condition, null, 1).replace(/\n\s*/g, " ").replace(/([{[]) | ([}\]])/g, "$1$2");
  };

  class ConditionBuilder extends HTMLElement {
    #root;
    #choices;
    #isText = false;
    #sentence = make("div", { class: "builder-group" });
    #problem = make("p", { class: "error", role: "alert" });
    #hidden = make("input", { type: "hidden", name: "condition", "data-type": "json" });
    #shown = make("code");
    #text = area("", "Whole condition as JSON", () => this.#changed(), { rows: "8" });

    connectedCallback() {
      this.#choices = JSON.parse(this.dataset.choices);
      this.#root = rootOf(JSON.parse(this.dataset.begins));
      const paste = make("div", { class: "paste" }, make("pre", { tabindex: "0", id: "condition-text" }, this.#shown), make("button", { type: "button", class: "copy", "data-copy": "condition-text" }, "Copy"));
      this.#text.hidden = true;
      const turn = button("quiet", "Edit as text", () => this.#turn(turn, paste));
      this.append(
        ...lists(this.#choices), ...ROOTS.slice(0, 2).map(([root]) => offers(`person-${root}`, this.#choices[root])),
        this.#sentence, this.#problem, this.#hidden,
        make("div", { class: "builder-text" }, make("p", { class: "line" }, make("span", { class: "muted" }, "As text"), make("span", { class: "buttons" }, turn)), paste, this.#text));
      this.addEventListener("refused", (event) => { event.preventDefault(); this.#refused(event.detail); });
      this.closest("form").addEventListener("submit", () => this.clear(), true);
      this.#draw();
    }

    // What a preview is asked of; null while a text is no JSON, or something is still to be filled in.
    get asked() {
      if (this.#missing().length) return null;
      try { return { condition: JSON.parse(this.#hidden.value) }; } catch { return null; }
    }

    // Say at each clause what is still to be filled in, and return whether anything is.
    complain() {
      this.clear();
      const found = this.#missing();
      for (const { node, message, control } of found) {
        node.place.textContent = `■ ${message}`;
        this.#control(node, control)?.setAttribute("aria-invalid", "true");
      }
      if (found.length) this.#control(found[0].node, found[0].control)?.focus();
      return found.length > 0;
    }

    #control(node, name) { return this.querySelector(`[data-control="${CSS.escape(`${node.number}-${name}`)}"]`); }

    #missing() {
      if (this.#isText) return [];
      const found = [];
      const look = (node) => {
        (node.terms || []).forEach(look);
        if (!node.clause) return;
        const { clause, kept } = node;
        if ("audience" in clause) {
          if (!clause.audience) found.push({ node, message: "Choose an audience.", control: "audience" });
        } else if ("if" in clause) {
          const at = hookline.comparisons.unfilled(kept);
          if (at >= 0) found.push({ node, message: "Give a trait and a value, or remove this clause.", control: `value${at}` });
        } else {
          const lack = missing(clause, kept);
          if (lack) found.push({ node, ...lack });
        }
      };
      look(this.#root);
      return found;
    }

    #turn(turn, paste) {
      if (this.#isText) {
        try {
          this.#root = rootOf(JSON.parse(this.#text.value));
        } catch {
          this.#problem.textContent = "■ This is not a condition in JSON.";
          return;
        }
      }
      this.#isText = !this.#isText;
      this.#text.value = this.#isText ? this.#shown.textContent : "";
      this.#sentence.hidden = paste.hidden = this.#isText;
      this.#text.hidden = !this.#isText;
      turn.textContent = this.#isText ? "Visual editor" : "Edit as text";
      if (this.#isText) this.#text.focus();
      this.clear();
      this.#draw();
    }

    #changed() {
      if (this.#isText) this.#hidden.value = this.#text.value || "{}";
      else {
        try {
          const condition = written(this.#root, "");
          this.#hidden.value = JSON.stringify(condition);
          this.#shown.textContent = pretty(condition);
        } catch (error) {
          this.#hidden.value = String(error.message);
        }
      }
      this.dispatchEvent(new Event("changed"));
    }

    // --- what was wrong
    clear() {
      this.#problem.textContent = "";
      for (const place of this.querySelectorAll("[data-wrong]")) place.textContent = "";
      for (const wrong of this.querySelectorAll("[aria-invalid]")) wrong.removeAttribute("aria-invalid");
    }

    #refused({ message, pointer, isPreview }) {
      const inner = pointer.replace(/^\/condition/, "");
      const nodes = [];
      const gather = (node) => { nodes.push(node); for (const term of node.terms || []) gather(term); };
      if (!this.#isText) gather(this.#root);
      const holding = nodes.filter((node) => node.place && node.pointer !== undefined && (inner === node.pointer || inner.startsWith(`${node.pointer}/`)));
      const found = holding.reduce((best, node) => (best && best.pointer.length > node.pointer.length ? best : node), null);
      (found?.place || this.#problem).textContent = `■ ${message}`;
      if (isPreview) return; // nobody asked: the focus stays where somebody types
      (found?.place.closest(".builder-clause")?.querySelector("input, select") || this.querySelector("select, textarea"))?.focus();
    }

    // --- the sentence
    #draw() {
      const focused = document.activeElement?.dataset?.control;
      this.#sentence.replaceChildren(make("p", { class: "builder-row" }, "People for whom ", this.#join(this.#root)), ...this.#inner(this.#root, 0));
      this.#changed();
      if (focused) this.querySelector(`[data-control="${CSS.escape(focused)}"]`)?.focus();
    }

    #join(node) {
      return select(GROUPS, node.group, "Match", (picked) => { node.group = picked; node.explicit ||= picked !== "all"; this.#draw(); }, { "data-control": `${node.number}-join` });
    }

    #inner(node, depth) {
      const remove = (term) => {
        node.terms.splice(node.terms.indexOf(term), 1);
        if (!node.terms.length) node.terms.push(nodeOf(NEW.event()));
        this.#draw();
        this.querySelector(`[data-control="${node.number}-add"]`)?.focus();
      };
      const add = (made) => {
        node.terms.push(made);
        this.#draw();
        this.querySelector(`[data-control^="${made.number}-"], [data-control^="${made.terms?.[0].number}-"]`)?.focus();
      };
      const group = () => ({ number: ++numbers, group: node.group === "any" ? "all" : "any", explicit: true, terms: [nodeOf(NEW.event())] });
      const rows = node.terms.map((term, at) => {
        term.place = make("p", { class: "error", "data-wrong": true, role: "alert" });
        const join = make("span", { class: "muted joins" }, at ? JOINS[node.group] : "");
        return make("li", {}, join, this.#term(term, depth, () => remove(term)));
      });
      return [
        make("ul", { class: "builder-terms" }, ...rows),
        make("p", { class: "buttons" },
          button("plain", "Add a clause", () => add(nodeOf(NEW.event())), { "data-control": `${node.number}-add` }),
          depth + 1 < DEPTH_SHOWN_MAX ? button("quiet", "Add a group", () => add(group())) : null),
      ];
    }

    #term(node, depth, remove) {
      const less = button("quiet remove", "×", remove, { "aria-label": "Remove this clause" });
      if (node.group) {
        return make("div", { class: "builder-group inner" },
          make("p", { class: "builder-row" }, make("span", {}, "for whom"), this.#join(node), less), node.place, ...this.#inner(node, depth + 1));
      }
      if (node.text !== undefined) {
        const text = area(node.text, "Condition as JSON", (typed) => { node.text = typed; this.#changed(); });
        return make("div", { class: "builder-clause" }, make("p", { class: "builder-row" }, make("span", {}, "for whom"), less), text, node.place);
      }
      return this.#clause(node, less);
    }

    #clause(node, less) {
      const { clause } = node;
      const kind = KINDS.map(([each]) => each).find((each) => each in clause) || "event";
      const key = (name) => ({ "data-control": `${node.number}-${name}` });
      const changed = (redraw) => { if (redraw) this.#draw(); else this.#changed(); };
      const which = select(KINDS, kind, "Clause type", (picked) => this.#become(node, picked), key("kind"));
      if (kind === "audience") {
        return make("div", { class: "builder-clause" }, make("p", { class: "builder-row" }, which, this.#audience(clause, changed, key), less), node.place);
      }
      if (kind === "if") {
        const [first, ...more] = this.#person(node, changed, key);
        return make("div", { class: "builder-clause" }, make("div", { class: "builder-row" }, which, first, less), ...more, node.place);
      }
      return make("div", { class: "builder-clause" },
        make("p", { class: "builder-row" }, which, named(clause, this.#choices, changed, key), ...often(clause, changed, key), times(clause, changed, key), less),
        ...where(clause, node.kept, this.#choices, changed, key), node.place);
    }

    // Another kind of clause; of events to events what was said of them stays.
    #become(node, kind) {
      const before = ["event", "page", "screen"].find((each) => each in node.clause);
      if (before && ["event", "page", "screen"].includes(kind)) {
        const { [before]: _, ...rest } = node.clause;
        node.clause = { [kind]: "", ...rest };
      } else node.clause = NEW[kind](this.#choices);
      node.kept = {};
      if (kind === "if") this.#beginComparing(node);
      this.#draw();
    }

    // A comparison that nobody has filled in yet: no trait is guessed, unless there is only one.
    #beginComparing(node) {
      const simple = { join: "and", clauses: [{ path: `traits.${only(this.#choices.traits) ?? ""}`, op: "=", value: "", unfilled: true }] };
      node.clause.if = hookline.conditions.write(simple);
      node.kept = { text: node.clause.if, simple };
    }

    #audience(clause, changed, key) {
      const known = this.#choices.audiences.map(({ id, name }) => [id, name]);
      if (!known.some(([id]) => id === clause.audience)) known.unshift([clause.audience, clause.audience || (known.length ? "choose one" : "(no other audience yet)")]);
      return select(known, clause.audience, "Audience", (picked) => { clause.audience = picked; changed(false); }, key("audience"));
    }

    #person({ clause, kept }, changed, key) {
      const rootOfPath = (path) => ROOTS.find(([root]) => path.startsWith(`${root}.`))?.[0];
      return hookline.comparisons({
        text: clause.if,
        kept,
        label: "",
        isNeeded: true,
        empty: () => ({ path: "traits.", op: "=", value: "", unfilled: true }),
        first: (path, set, named) => {
          const root = rootOfPath(path);
          if (!root) return [field(path, "Field", (typed) => set(typed, false), { class: "path", ...named("path") })];
          const name = path.slice(root.length + 1);
          const roots = select(ROOTS, root, "Kind of trait", (picked) => set(`${picked}.${picked === "computed" ? escaped(this.#choices.computed[0]?.id || "") : ""}`, true), named("root"));
          if (root !== "computed") return [roots, field(name, "Trait", (typed) => set(`${root}.${typed}`, false), { class: "path", list: `person-${root}`, ...named("path") })];
          const known = this.#choices.computed.map((each) => [escaped(each.id), each.name]);
          if (!known.some(([id]) => id === name)) known.unshift([name, name || "(none yet)"]);
          return [roots, select(known, name, "Computed trait", (picked) => set(`computed.${picked}`, false), named("path"))];
        },
        take: (text, redraw) => { clause.if = text ?? ""; changed(redraw); },
        key,
      });
    }
  }

  customElements.define("condition-builder", ConditionBuilder);
})();
