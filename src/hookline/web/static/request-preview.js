// What an event becomes at a destination that is not saved, as the server makes it: the exact requests, or what is wrong.
// <request-preview> shows it for the fields of a form; the mapping editor uses the same.
(() => {
  const { make, sourceName } = hookline.elements;
  const WAIT_MS = 300;

  const ask = async (body) => {
    const answer = await fetch("/api/v1/destinations/preview", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    }).catch(() => null);
    const json = await answer?.json().catch(() => null);
    if (answer?.status === 401) hookline.toSignIn();
    if (!answer?.ok) throw new Error(json?.detail || "Hookline did not answer. Try again in a moment.");
    return json;
  };

  const eventLine = ({ name, type, messageId, source, isStored }) => make("p", { class: "line" },
    make("span", { class: "type" }, type), " ",
    isStored ? make("a", { href: `/events/${encodeURIComponent(messageId)}?source=${encodeURIComponent(source)}` }, make("bdi", {}, name || messageId)) : make("bdi", {}, name || "sample"),
    make("span", { class: "muted" }, isStored ? ` from ${sourceName(source)}` : " not stored"));

  // The requests of a report; problems that belong to no field of their own are said here.
  const draw = (report, problems = report.problems) => [
    eventLine(report.event),
    report.stoppedBy ? make("p", { class: "mark warn" }, "▲ This event would not be sent: ", make("code", {}, make("bdi", {}, report.stoppedBy))) : null,
    ...problems.map(({ pointer, detail }) => make("p", { class: "error" }, "■ ", pointer ? make("code", {}, pointer) : null, ` ${detail}`)),
    ...report.requests.flatMap((each) => [
      make("h3", {}, make("bdi", {}, each.name || each.url)), make("p", { class: "mono muted" }, make("bdi", {}, each.url)), hookline.asSent.request(each),
    ]),
    report.requests.length || report.problems.length || report.stoppedBy ? null : make("p", { class: "muted" }, "No request."),
  ].filter(Boolean);

  class RequestPreview extends HTMLElement {
    #place = make("div", { class: "previewed", role: "status" });
    #timer = 0;
    #turn = 0;
    #asked = false;

    connectedCallback() {
      const form = document.getElementById(this.dataset.form);
      const open = make("button", { type: "button", class: "plain" }, "Preview with my last event");
      open.addEventListener("click", () => { this.#asked = true; this.#look(form); });
      form.addEventListener("input", () => { if (this.#asked) this.#soon(form); });
      this.append(make("p", { class: "buttons" }, open, make("span", { class: "hint" }, "Shows the exact request. Nothing is sent.")), this.#place);
    }

    #soon(form) {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#look(form), WAIT_MS);
    }

    async #look(form) {
      const turn = ++this.#turn;
      try {
        const { body } = hookline.fields.read(form, "POST");
        const destination = { ...body, kind: this.dataset.kind, sources: [this.dataset.source].filter(Boolean), settings: body?.settings || {} };
        if (this.dataset.destination) destination.id = this.dataset.destination;
        if (!destination.id) delete destination.id;
        if (!destination.name) delete destination.name;
        delete destination.enabled;
        const report = await ask({ destination, ...(this.dataset.source ? { source: this.dataset.source } : {}) });
        if (turn === this.#turn) this.#place.replaceChildren(...draw(report));
      } catch (error) {
        if (turn === this.#turn) this.#place.replaceChildren(make("p", { class: "error" }, `■ ${error.message}`));
      }
    }
  }

  customElements.define("request-preview", RequestPreview);
  hookline.preview = { ask, draw };
})();
