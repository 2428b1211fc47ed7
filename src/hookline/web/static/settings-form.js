// What the form of a kind's settings needs beyond plain fields: parts that belong to a choice (data-shown-if), secrets
// that are kept, replaced or removed, and rows of names and values.
(() => {
  const { make } = hookline.elements;
  const { button } = hookline.controls;

  const valuesIn = (form, name) => [form.elements[name] ?? []].flatMap((each) => (each instanceof RadioNodeList ? [...each] : each))
    .filter((each) => each.type !== "checkbox" || each.checked).map((each) => each.value);
  const follow = (form) => {
    for (const part of form.querySelectorAll("[data-shown-if]")) {
      const wanted = JSON.parse(part.dataset.shownIf);
      const shown = Object.entries(wanted).every(([name, values]) => valuesIn(form, name).some((each) => values.includes(each)));
      part.hidden = !shown;
      for (const field of part.querySelectorAll("input, select, textarea")) field.disabled = !shown;
    }
  };
  hookline.onDress((scope) => scope.querySelectorAll("form:has([data-shown-if])").forEach(follow));
  document.addEventListener("input", (event) => { if (event.target.form?.querySelector("[data-shown-if]")) follow(event.target.form); });

  // A stored secret: nothing typed keeps it.
  document.addEventListener("click", (event) => {
    const remover = event.target.closest("[data-remove-secret]");
    if (!remover) return;
    const field = document.getElementById(remover.dataset.removeSecret);
    const removes = field.dataset.empty !== "null";
    field.value = "";
    field.disabled = false;
    field.dataset.empty = removes ? "null" : "omit";
    field.readOnly = removes;
    field.placeholder = removes ? "Removed when you save" : field.dataset.kept;
    remover.textContent = removes ? "Keep" : "Remove";
    remover.form.dataset.dirty = "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });

  // <name-value-rows>: an object with names of one's own. What was there and is taken out is null in the request.
  class NameValueRows extends HTMLElement {
    #rows = [];
    #before = [];
    #list = make("ul", { class: "rows" });
    #field;

    connectedCallback() {
      const stored = JSON.parse(this.dataset.rows || "{}");
      this.#before = Object.keys(stored);
      this.#rows = Object.entries(stored).map(([name, value]) => ({ name, value: this.#secret ? "" : String(value), kept: this.#secret ? String(value) : "" }));
      this.#field = make("input", { type: "hidden", name: this.dataset.name, "data-type": "json", "data-empty": "omit" });
      this.append(this.#list, this.#field, make("p", { class: "buttons" }, button("plain", `Add ${this.dataset.one}`, () => {
        this.#rows.push({ name: "", value: "", kept: "" });
        this.#draw();
        this.#list.lastElementChild.querySelector("input").focus();
      })));
      this.addEventListener("refused", (event) => this.#refused(event));
      this.#draw();
    }

    get #secret() { return "secret" in this.dataset; }

    #draw() {
      this.#list.replaceChildren(...this.#rows.map((row, index) => {
        const label = (word) => `${this.dataset.one}: ${word}${this.#rows.length > 1 ? ` ${index + 1}` : ""}`;
        const input = (key, word, more) => {
          const made = make("input", { type: "text", "aria-label": label(word), placeholder: word, autocomplete: "off", spellcheck: "false", ...more });
          made.value = row[key];
          made.addEventListener("input", () => { row[key] = made.value; this.#write(); });
          return made;
        };
        const kept = row.kept ? `saved ${row.kept}; type to replace` : "value";
        return make("li", {}, input("name", "name", { readonly: Boolean(row.kept) }),
          input("value", "value", this.#secret ? { type: "password", placeholder: kept, autocomplete: "new-password" } : {}),
          button("quiet", "×", () => { this.#rows.splice(index, 1); this.#draw(); this.#told(); }, { "aria-label": `Remove ${row.name || "this"}` }),
          make("p", { class: "error", "data-row-error": row.name }));
      }));
      this.#write();
    }

    #told() { this.#field.dispatchEvent(new Event("input", { bubbles: true })); }

    #write() {
      const made = Object.fromEntries(this.#before.map((name) => [name, null]));
      for (const { name, value, kept } of this.#rows) if (name) made[name] = value || kept || "";
      if (!this.#before.length) for (const name of Object.keys(made)) if (made[name] === null) delete made[name];
      this.#field.value = Object.keys(made).length ? JSON.stringify(made) : "";
    }

    #refused(event) {
      const name = event.detail.pointer.split("/").at(-1);
      const place = [...this.#list.querySelectorAll("[data-row-error]")].find((each) => each.dataset.rowError === name) || null;
      if (!place) return;
      event.preventDefault();
      place.textContent = `■ ${event.detail.message}`;
    }
  }
  customElements.define("name-value-rows", NameValueRows);
})();
