// <definition-preview>: how many people the builder's definition finds, and some of them, before it is saved. Asked for
// by a button, since history that nothing else asks for has to be read first; what it found stays until it is asked again.
(() => {
  const { make, number } = hookline.elements;
  const { button } = hookline.controls;
  const LOOK_MS = 700;
  const API = "/api/v1/audience-previews";

  class DefinitionPreview extends HTMLElement {
    #builder;
    #turn = 0;
    #isTrait = false;
    #ask = button("plain", "Preview audience", () => this.#begin());
    #result = make("div", { role: "status" });
    #changed = make("p", { class: "hint", hidden: true }, "The definition changed. Preview again.");

    connectedCallback() {
      this.#builder = this.closest("form").querySelector("condition-builder, trait-builder");
      if (this.#builder.localName === "trait-builder") this.#ask.textContent = "Preview trait";
      this.#builder.addEventListener("changed", () => { this.#changed.hidden = !this.#result.hasChildNodes(); });
      this.append(make("h2", {}, "Preview"),
        make("p", { class: "hint" }, "The preview reads stored events. Nothing is synced or saved."),
        make("p", { class: "buttons" }, this.#ask), this.#changed, this.#result);
    }

    disconnectedCallback() { this.#turn += 1; }

    async #begin() {
      const turn = ++this.#turn;
      const { asked } = this.#builder;
      if (asked === null) { this.#complain("The condition is not JSON."); return; }
      this.#isTrait = "computedTrait" in asked;
      this.#changed.hidden = true;
      this.#builder.clear();
      this.#say(make("p", { class: "muted" }, "Starting…"));
      let { answer, json } = await fetched(API, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(asked) });
      if (turn !== this.#turn) return;
      if (answer?.status === 422 && json?.errors?.length) {
        this.#result.replaceChildren();
        for (const { detail, pointer } of json.errors) {
          this.#builder.dispatchEvent(new CustomEvent("refused", { cancelable: true, detail: { message: detail, pointer } }));
        }
        return;
      }
      while (turn === this.#turn) {
        if (answer?.status === 401) { hookline.toSignIn(); return; }
        if (!answer?.ok) { this.#complain(json?.detail || "Hookline did not answer. Try again in a moment."); return; }
        this.#show(json);
        if (json.state === "done" || json.state === "failed") return;
        await new Promise((done) => { setTimeout(done, LOOK_MS); });
        ({ answer, json } = await fetched(`${API}/${encodeURIComponent(json.id)}`));
      }
    }

    #say(...children) { this.#result.replaceChildren(...children); }

    #complain(message) { this.#say(make("p", { class: "error" }, `■ ${message}`)); }

    #show({ state, progress, people, members, sample, detail }) {
      if (state === "failed") { this.#complain(detail); return; }
      const parts = [];
      if (state !== "done") {
        const word = state === "reading" ? "Reading stored events" : "Evaluating people";
        parts.push(make("p", { class: "muted" }, `${word}…`), make("progress", { class: "wide-bar", max: 1, value: progress, "aria-label": word }));
      }
      if (members !== null && people !== null) {
        const verb = this.#isTrait ? " with a value" : "";
        parts.push(make("p", { class: "matched" }, make("strong", {}, number(members)), ` of ${number(people)} ${people === 1 ? "person" : "people"}${verb}`));
      }
      if (sample.length) parts.push(make("h3", {}, "Examples"), make("ul", { class: "sampled" }, ...sample.map((each) => sampled(each, this.#isTrait))));
      this.#say(...parts);
    }
  }

  const sampled = ({ userId, anonymousId, value }, isTrait) => {
    const kind = userId === null ? "anonymous" : "user";
    const id = userId ?? anonymousId ?? "";
    // A browser would take a name of dots for a step in the address.
    const href = id === "." || id === ".." ? `/people?${userId === null ? "anonymousId" : "userId"}=${id}` : `/people/${kind}/${encodeURIComponent(id)}`;
    return make("li", {}, make("a", { href }, make("bdi", {}, id)),
      isTrait ? make("bdi", { class: "mono" }, JSON.stringify(value)) : null);
  };

  const fetched = async (url, options = {}) => {
    const answer = await fetch(url, { redirect: "error", ...options }).catch(() => null);
    return { answer, json: await answer?.json().catch(() => null) };
  };

  customElements.define("definition-preview", DefinitionPreview);
})();
