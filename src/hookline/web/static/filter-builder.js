// <filter-builder>: the filters of a destination in their order, each condition as clauses or as text, whichever one
// likes; what is more than clauses can say stays text. It saves through the admin API, and says with "changed" what
// there is now, so that it can be tried before.
(() => {
  const { make } = hookline.elements;
  const { button, field, save, select } = hookline.controls;
  const { parse, write, valueOf, ops } = hookline.conditions;
  const DO = [
    ["drop", "do not send it"], ["sample", "send only a share"],
    ["dropProperties", "remove fields"], ["allowProperties", "keep only fields"],
  ];
  const PATHS = ["type", "event", "userId", "name", "properties.", "traits.", "context."];

  const found = () => [make("p", { class: "filter-found" }, make("span", { class: "muted", "data-count": true }), make("span", { class: "error", "data-error": true }))];
  const none = () => make("li", { class: "muted" }, make("span", { "data-count": true, hidden: true }), make("span", { "data-error": true, hidden: true }), "No filters. Every event is sent unchanged.");

  class FilterBuilder extends HTMLElement {
    #filters = [];
    #saved = "";
    #saving = false;
    #list = make("ol", { class: "filter-list" });
    #add;
    #problem = make("p", { class: "error", role: "alert" });
    #said = make("p", { class: "said", role: "status" });

    connectedCallback() {
      const filters = JSON.parse(this.dataset.filters);
      this.#saved = JSON.stringify(filters);
      this.#filters = filters.map((filter) => ({ ...filter, asText: !parse(filter.if) }));
      if (this.closest(".looking")) { this.#showOnly(); return; }
      this.#add = button("plain", "Add a filter", () => {
        if (this.#filters.length >= Number(this.dataset.max)) return;
        this.#filters.push({ if: 'type = "track"', do: "drop", asText: false });
        this.#draw();
        this.#list.lastElementChild.querySelector("input, select").focus();
      });
      this.append(
        make("datalist", { id: "filter-paths" }, ...PATHS.map((path) => make("option", { value: path }))),
        this.#list, this.#problem, this.#said,
        make("p", { class: "buttons" }, this.#add, button("primary", "Save", () => this.#save())));
      this.#draw();
    }

    get filters() {
      return this.#filters.map(({ if: condition, do: what, percent, properties }) => {
        const filter = { if: condition, do: what };
        if (what === "sample") filter.percent = percent ?? 10;
        if (what.endsWith("Properties")) filter.properties = properties || [];
        return filter;
      });
    }

    // For somebody who may not change them: what they do, without controls.
    #showOnly() {
      const word = new Map(DO);
      const what = ({ do: action, percent, properties }) =>
        action === "sample" ? `send only ${percent} %` : action.endsWith("Properties") ? `${word.get(action)}: ${properties.join(", ")}` : word.get(action);
      this.#list.replaceChildren(...this.#filters.map((filter) => make("li", { class: "filter-row" },
        make("p", {}, make("span", { class: "muted" }, "if "), make("code", {}, make("bdi", {}, filter.if))),
        make("p", {}, make("span", { class: "muted" }, "then "), make("bdi", {}, what(filter))), ...found())));
      if (!this.#filters.length) this.#list.append(none());
      this.append(this.#list, make("p", { class: "hint" }, "Your role is viewer. Editors can change filters."));
      this.dispatchEvent(new Event("changed", { bubbles: true }));
    }

    // How many events each filter met, or what is wrong with it.
    show(counts, errors = []) {
      [...this.#list.children].forEach((row, index) => {
        row.querySelector("[data-count]").textContent = counts?.[index] ? `matches ${counts[index].matched}` : "";
        const wrong = errors.find((error) => error.pointer.startsWith(`/filters/${index}`));
        row.querySelector("[data-error]").textContent = wrong ? `■ ${wrong.detail}` : "";
      });
    }

    // The focus stays at the control that was used, or goes to the next of its kind, or to one that is always there.
    #draw() {
      const focused = document.activeElement?.dataset.control;
      this.#list.replaceChildren(...this.#filters.map((filter, index) => this.#row(filter, index)));
      if (!this.#filters.length) this.#list.append(none());
      this.#changed();
      if (focused) (this.querySelector(`[data-control="${focused}"]`) || this.querySelector(`[data-control="${focused.split("-")[0]}-add"]`) || this.#add).focus();
    }

    #changed() {
      this.#said.textContent = "";
      this.dispatchEvent(new Event("changed", { bubbles: true }));
    }

    #row(filter, index) {
      const key = (name) => ({ "data-control": `${index}-${name}` });
      const move = (by) => {
        const [taken] = this.#filters.splice(index, 1);
        this.#filters.splice(index + by, 0, taken);
        this.#draw();
        this.#list.children[index + by].querySelector(by < 0 ? "[data-up]" : "[data-down]").focus();
      };
      const remove = () => { this.#filters.splice(index, 1); this.#draw(); };
      const what = select(DO, filter.do, "Action", (value) => { filter.do = value; this.#draw(); }, key("action"));
      const last = index === this.#filters.length - 1;
      return make("li", { class: "filter-row" },
        make("div", { class: "filter-what" }, make("span", { class: "muted" }, "then"), what, ...this.#more(filter),
          make("span", { class: "buttons" },
            button("quiet", "↑", () => move(-1), { "aria-label": "Earlier", "data-up": true, disabled: index === 0 }),
            button("quiet", "↓", () => move(1), { "aria-label": "Later", "data-down": true, disabled: last }),
            button("quiet", "Remove", remove, key("remove")))),
        this.#condition(filter, key),
        ...found());
    }

    #more(filter) {
      if (filter.do === "sample") {
        const percent = field(filter.percent ?? 10, "Percent", (text) => { filter.percent = Number(text); this.#changed(); });
        percent.inputMode = "decimal";
        percent.className = "short";
        return [percent, make("span", { class: "muted" }, "%")];
      }
      if (!filter.do.endsWith("Properties")) return [];
      const fields = field((filter.properties || []).join(", "), "Fields", (text) => {
        filter.properties = text.split(",").map((each) => each.trim()).filter(Boolean);
        this.#changed();
      });
      fields.placeholder = "properties.card, context.ip";
      return [fields];
    }

    #condition(filter, key) {
      const simple = parse(filter.if);
      if (filter.asText || !simple) {
        const text = make("textarea", { rows: "2", "aria-label": "Condition", spellcheck: "false", ...key("turn") });
        text.value = filter.if;
        text.addEventListener("input", () => { filter.if = text.value; this.#changed(); });
        const back = button("quiet", "Visual editor", () => { filter.asText = false; this.#draw(); }, key("turn"));
        const hint = make("span", { class: "hint" }, "Too complex for the visual editor. Simplify the text to use it.");
        text.addEventListener("change", () => { back.hidden = !parse(filter.if); hint.hidden = !back.hidden; });
        back.hidden = !simple;
        hint.hidden = Boolean(simple);
        return make("div", { class: "filter-if" }, make("span", { class: "muted" }, "if"), text, back, hint);
      }
      const wrote = () => { filter.if = write(simple); this.#changed(); };
      const redraw = () => { filter.if = write(simple); this.#draw(); };
      const rows = simple.clauses.map((clause, at) => make("div", { class: "clause" },
        at ? select([["and", "and"], ["or", "or"]], simple.join, "Join", (join) => { simple.join = join; redraw(); }, key(`join${at}`)) : make("span", { class: "muted" }, "if"),
        field(clause.path, "Field", (path) => { clause.path = path; wrote(); }, { list: "filter-paths" }),
        select(ops.map((op) => [op, op]), clause.op, "Comparison", (op) => { clause.op = op; wrote(); }),
        field(clause.value, "Value", (typed) => { clause.value = valueOf(typed); wrote(); }),
        button("quiet", "×", () => { simple.clauses.splice(at, 1); redraw(); }, { "aria-label": "Remove this clause", ...key(`less${at}`) })));
      if (!rows.length) rows.push(make("div", { class: "clause" }, make("span", { class: "muted" }, "if"), make("span", {}, "any event")));
      return make("div", { class: "filter-clauses" }, ...rows, make("div", { class: "buttons" },
        button("quiet", "Add a clause", () => { simple.clauses.push({ path: "event", op: "=", value: "" }); redraw(); }, key("add")),
        button("quiet", "Edit as text", () => { filter.asText = true; this.#draw(); }, key("turn"))));
    }

    // Not twice at once: the second would take the first for a change of somebody else.
    async #save() {
      if (this.#saving) return;
      this.#saving = true;
      this.#problem.textContent = "";
      const answer = await save(this.dataset.api, "filters", this.filters, this.#saved).catch(() => null);
      this.#saving = false;
      if (answer?.ok) {
        this.#saved = JSON.stringify(answer.json.filters);
        this.#said.textContent = "Saved. Applies to events sent from now on.";
        return;
      }
      if (answer?.status === 401) hookline.toSignIn();
      this.show(null, answer?.json.errors || []);
      this.#problem.textContent = `■ ${answer?.json.detail || "Hookline did not answer. Try again in a moment."}`;
    }
  }

  customElements.define("filter-builder", FilterBuilder);
})();
