// <filter-test>: what the filters as they stand in the builder, saved or not, would do with recent events.
(() => {
  const { make, number, titleOf } = hookline.elements;
  const WAIT_MS = 400;
  const EVENTS = 200;
  const SAMPLES = 5;

  class FilterTest extends HTMLElement {
    #timer = 0;
    #turn = 0;

    connectedCallback() {
      this.append(make("h2", {}, "Test on recent events"), make("div", { role: "status", "data-result": true }, make("p", { class: "muted" }, "Testing…")), make("div", { "data-samples": true }));
      const builder = document.querySelector("filter-builder");
      builder.addEventListener("changed", () => this.#soon(builder));
      this.#soon(builder);
    }

    #soon(builder) {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#look(builder), WAIT_MS);
    }

    async #look(builder) {
      const turn = ++this.#turn;
      const body = JSON.stringify({ filters: builder.filters, events: EVENTS, samples: SAMPLES });
      const answer = await fetch(`${this.dataset.api}/filters/test`, {
        method: "POST", headers: { "Content-Type": "application/json" }, body,
      }).catch(() => null);
      const result = await answer?.json().catch(() => null);
      if (turn !== this.#turn) return;
      if (!answer?.ok) {
        builder.show(null, result?.errors || []);
        this.#say(make("p", { class: "error" }, `■ ${result?.detail || "Hookline did not answer."}`));
        return;
      }
      builder.show(result.filters);
      this.#show(result);
    }

    #say(...children) { this.querySelector("[data-result]").replaceChildren(...children); }

    #show({ total, matched, filtered, changed, samples }) {
      const place = this.querySelector("[data-samples]");
      if (!total) {
        this.#say(make("p", { class: "muted" }, "Its sources have no stored events yet. The test runs again when a filter changes."));
        place.replaceChildren();
        return;
      }
      this.#say(
        make("p", { class: "matched" }, make("strong", {}, `Matched ${number(matched)} of ${number(total)}`)),
        make("p", { class: "muted" }, `${number(total - filtered)} would be sent, ${number(changed)} of them changed. ${number(filtered)} would not be sent.`));
      place.replaceChildren(...samples.map((sample) => {
        const href = `/events/${encodeURIComponent(sample.messageId)}?source=${encodeURIComponent(sample.source)}`;
        const word = sample.after === null ? "not sent" : JSON.stringify(sample.after) === JSON.stringify(sample.before) ? "sent unchanged" : "sent with fields removed";
        const name = titleOf(sample.before.type, sample.before) || sample.messageId;
        return make("details", { class: "sample" },
          make("summary", {}, make("bdi", {}, name), ` – ${word}`),
          make("p", {}, make("a", { href }, "Open event")),
          make("h3", {}, "Without filters"), treeOf(sample.before),
          make("h3", {}, "With filters"), sample.after === null ? make("p", { class: "muted" }, "not sent") : treeOf(sample.after));
      }));
    }
  }

  const treeOf = (value) => {
    const tree = make("json-tree");
    tree.value = value;
    return tree;
  };

  customElements.define("filter-test", FilterTest);
})();
