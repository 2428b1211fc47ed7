// <trait-builder>: what a computed trait is made of, as a sentence. Each of its keys is a hidden field of the form, and
// what the API refuses is shown below the sentence.
(() => {
  const { make } = hookline.elements;
  const { field, select, offers } = hookline.controls;
  const { kindOf, named, missing, only, times, where, lists, pathsOf } = hookline.eventClause;
  const KEYS = ["event", "page", "screen", "aggregate", "property", "within", "between", "where"];
  const AGGREGATES = [
    ["count", "number"], ["sum", "sum"], ["average", "average"], ["min", "smallest"], ["max", "largest"],
    ["mostFrequent", "most frequent"], ["first", "first"], ["last", "last"], ["uniqueList", "list of distinct values"],
    ["uniqueCount", "number of distinct values"],
  ];
  const KINDS = [["event", "track calls"], ["page", "page views"], ["screen", "screen views"]];

  class TraitBuilder extends HTMLElement {
    #clause;
    #kept = {};
    #choices;
    #sentence = make("div", { class: "builder-group" });
    #problem = make("p", { class: "error", role: "alert", "data-wrong": true });
    #hidden = Object.fromEntries(KEYS.map((name) => [name, make("input", { type: "hidden", name, "data-type": "json" })]));
    #shown = make("code");

    connectedCallback() {
      this.#choices = JSON.parse(this.dataset.choices);
      this.#clause = JSON.parse(this.dataset.begins);
      this.append(
        ...lists(this.#choices), offers("trait-paths", []), this.#sentence, this.#problem, ...Object.values(this.#hidden),
        make("div", { class: "builder-text" }, make("p", { class: "muted" }, "As text"),
          make("div", { class: "paste" }, make("pre", { tabindex: "0", id: "trait-text" }, this.#shown), make("button", { type: "button", class: "copy", "data-copy": "trait-text" }, "Copy"))));
      this.addEventListener("refused", (event) => {
        event.preventDefault();
        this.#problem.textContent = `${this.#problem.textContent} ■ ${event.detail.message}`.trim();
      });
      this.closest("form").addEventListener("submit", () => this.clear(), true);
      this.#draw();
    }

    clear() {
      this.#problem.textContent = "";
      for (const wrong of this.querySelectorAll("[aria-invalid]")) wrong.removeAttribute("aria-invalid");
    }

    // What a preview is asked of; null while something is still to be filled in.
    get asked() { return this.#missing() ? null : { computedTrait: this.#clause }; }

    // Say what is still to be filled in, and return whether anything is.
    complain() {
      this.clear();
      const lack = this.#missing();
      if (!lack) return false;
      this.#problem.textContent = `■ ${lack.message}`;
      const control = this.querySelector(`[data-control="trait-${lack.control}"]`);
      control?.setAttribute("aria-invalid", "true");
      control?.focus();
      return true;
    }

    #missing() {
      const { aggregate, property } = this.#clause;
      const lack = missing(this.#clause, this.#kept);
      if (lack || aggregate === "count" || (property && !property.endsWith("."))) return lack;
      return { message: "Give the property whose values are used.", control: "property" };
    }

    #changed() {
      for (const [name, hidden] of Object.entries(this.#hidden)) {
        hidden.disabled = !(name in this.#clause);
        hidden.value = JSON.stringify(this.#clause[name] ?? null);
      }
      this.#shown.textContent = JSON.stringify(this.#clause, null, 1).replace(/\n\s*/g, " ").replace(/([{[]) | ([}\]])/g, "$1$2");
      this.dispatchEvent(new Event("changed"));
    }

    #draw() {
      const focused = document.activeElement?.dataset?.control;
      const key = (name) => ({ "data-control": `trait-${name}` });
      const changed = (redraw) => { if (redraw) this.#draw(); else this.#changed(); };
      const clause = this.#clause;
      const become = (kind) => {
        delete clause[kindOf(clause)];
        this.#clause = { [kind]: "", ...clause };
        this.#draw();
      };
      const aggregate = select(AGGREGATES, clause.aggregate, "Aggregate", (picked) => {
        clause.aggregate = picked;
        if (picked === "count") delete clause.property;
        else clause.property ??= only(pathsOf(clause, this.#choices)) ?? "";
        this.#draw();
      }, key("aggregate"));
      this.#sentence.replaceChildren(
        make("p", { class: "builder-row" }, "For each person, the ", aggregate, ...this.#property(clause, changed, key)),
        make("p", { class: "builder-row" }, clause.aggregate === "count" ? "of " : "over ", select(KINDS, kindOf(clause), "Calls", become, key("kind")),
          named(clause, this.#choices, changed, key), times(clause, changed, key)),
        ...where(clause, this.#kept, this.#choices, changed, key));
      this.#changed();
      if (focused) this.querySelector(`[data-control="${CSS.escape(focused)}"]`)?.focus();
    }

    #property(clause, changed, key) {
      if (clause.aggregate === "count") return [];
      const made = field(clause.property, "Property", (typed) => { clause.property = typed; changed(false); }, { class: "path", list: "trait-paths", ...key("property") });
      made.addEventListener("focus", () => {
        const paths = pathsOf(this.#clause, this.#choices);
        this.querySelector("#trait-paths").replaceChildren(...paths.map((value) => make("option", { value })));
      });
      return [make("span", {}, "of"), made];
    }
  }

  customElements.define("trait-builder", TraitBuilder);
})();
