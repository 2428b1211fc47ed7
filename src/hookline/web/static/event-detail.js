// <event-detail>: one event beside the list: its status at each destination, and its JSON: pretty, raw, as requests.
(() => {
  const { outcomeWord, took, make, mark, person, source, isSource, moment, copyable, parse, quoted, number } = hookline.elements;
  const VIEWS = [["pretty", "Pretty"], ["raw", "Raw"], ["request", "Request"]];
  const NOT_ROUTED_SHOWN = 5;
  const REQUESTED_MAX = 5;
  const NOT_SENT = new Set(["not_routed", "filtered", "suppressed", "duplicate"]);

  class EventDetail extends HTMLElement {
    #item = null;
    #view = "pretty";
    #asked = 0;
    #keys = {};
    #reasons = {};

    connectedCallback() {
      this.#keys = JSON.parse(this.dataset.keys || "{}");
      this.#reasons = JSON.parse(this.dataset.reasons || "{}");
    }

    get item() { return this.#item; }

    show(item) {
      this.#item = item;
      const { event } = item;
      if (item.isErased) {
        this.replaceChildren(
          make("div", { class: "detail-head" }, make("h2", {}, make("span", { class: "type" }, make("bdi", {}, event.type)), " content erased"), close()),
          make("p", { class: "muted" }, "A deletion request erased this event. Only its source, type and time are kept."),
          make("dl", { class: "facts" }, fact("Source", source(event.source)), fact("Accepted", moment(event.receivedAt))));
        return;
      }
      this.replaceChildren(
        make("div", { class: "detail-head" },
          make("h2", {}, make("span", { class: "type" }, make("bdi", {}, event.type)), " ", make("bdi", {}, item.name || event.messageId)),
          make("span", { class: "buttons" }, make("a", { class: "plain", href: item.href, "data-open": true }, "Show full history"), close())),
        make("ul", { class: "statuses" }),
        make("dl", { class: "facts" },
          fact("Message id", make("code", {}, make("bdi", {}, event.messageId)), copyable("Copy", () => event.messageId)),
          fact("User", person(event.userId, item.user)),
          fact("Source", source(event.source)),
          fact("Accepted", moment(event.receivedAt))),
        this.#tabs(),
        make("div", { class: "detail-view", role: "tabpanel", id: "detail-view", tabindex: "0" }));
      this.refresh(item);
      this.#showView();
    }

    // The status has changed; what is being read stays.
    refresh(item) {
      if (this.#item !== item || item.isErased) return;
      const statuses = this.querySelector(".statuses");
      const isOpen = statuses.querySelector("details")?.open;
      statuses.replaceChildren(...statusesOf(item.event, this.#reasons, "mayEdit" in this.dataset));
      if (isOpen && statuses.querySelector("details")) statuses.querySelector("details").open = true;
    }

    #tabs() {
      const list = make("div", { role: "tablist", "aria-label": "The event's JSON" });
      for (const [view, word] of VIEWS) {
        const picked = view === this.#view;
        const tab = make("button", {
          type: "button", role: "tab", "aria-selected": String(picked), "aria-controls": "detail-view",
          tabindex: picked ? "0" : "-1", "data-view": view,
        }, word);
        tab.addEventListener("click", () => this.#pick(view));
        list.append(tab);
      }
      list.addEventListener("keydown", (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!by) return;
        event.stopPropagation();
        const at = VIEWS.findIndex(([view]) => view === this.#view);
        this.#pick(VIEWS[(at + by + VIEWS.length) % VIEWS.length][0]);
        list.querySelector("[aria-selected=true]").focus();
      });
      return list;
    }

    #pick(view) {
      this.#view = view;
      for (const tab of this.querySelectorAll("[data-view]")) {
        const picked = tab.dataset.view === view;
        tab.setAttribute("aria-selected", String(picked));
        tab.tabIndex = picked ? 0 : -1;
      }
      this.#showView();
    }

    async #showView() {
      const asked = ++this.#asked;
      const panel = this.querySelector(".detail-view");
      const item = this.#item;
      try {
        const children = await this[{ pretty: "_pretty", raw: "_raw", request: "_request" }[this.#view]](item);
        if (asked === this.#asked) panel.replaceChildren(...children);
      } catch (error) {
        if (asked === this.#asked) panel.replaceChildren(make("p", { class: "error", role: "alert" }, `■ ${error.message}`));
      }
    }

    async _pretty(item) {
      const tree = make("json-tree");
      tree.value = item.event.event;
      return [this.#tools(item, await this.#raw(item)), tree];
    }

    async _raw(item) {
      const text = await this.#raw(item);
      return [this.#tools(item, text), paste(text)];
    }

    // Byte for byte: the stream may have put blanks where the sender had line breaks.
    async #raw(item) {
      item.raw ??= rawEvent(await fetched(item.api)) ?? "";
      return item.raw;
    }

    // As the current settings make it: attempts have what was sent.
    async _request(item) {
      const due = item.event.destinations.filter((each) => !NOT_SENT.has(each.status));
      if (!due.length) return [make("p", { class: "muted" }, "No destination gets this event.")];
      if (!("mayEdit" in this.dataset)) return [make("p", { class: "muted" }, "Your role is viewer. Editors see here which requests the current settings make of the event; “Show full history” says what was sent.")];
      const body = JSON.stringify({ messageId: item.event.messageId, source: item.event.source, dryRun: true });
      const parts = [make("p", { class: "hint" }, "Made with the current settings. “Show full history” has the requests that were sent.")];
      for (const { id } of due.slice(0, REQUESTED_MAX)) {
        const report = JSON.parse(await fetched(`/api/v1/destinations/${encodeURIComponent(id)}/test`, body));
        const made = [...hookline.asSent.impossible(report), ...report.requests.map(hookline.asSent.request)];
        parts.push(make("h3", {}, make("bdi", {}, id)), ...(made.length ? made : [make("p", { class: "muted" }, "No HTTP request.")]));
      }
      const more = due.length - REQUESTED_MAX;
      if (more > 0) parts.push(make("p", { class: "muted" }, `${number(more)} more ${more === 1 ? "destination" : "destinations"}`));
      return parts;
    }

    #tools(item, raw) {
      return make("p", { class: "detail-tools" },
        copyable("Copy as curl", () => curlOf(item.event, raw, this.dataset.collect, this.#keys)),
        copyable("Copy JSON", () => raw));
    }
  }

  const close = () => make("button", { type: "button", class: "quiet", "data-close-detail": true, "aria-label": "Close details" }, "×");
  const fact = (name, ...values) => make("div", {}, make("dt", {}, name), make("dd", {}, ...values.flatMap((each) => [each, " "])));
  const paste = (text) => make("div", { class: "paste" }, make("pre", { tabindex: "0" }, make("code", {}, text)));

  // The destinations that get the event first; then those that it was not routed to, folded where they are many.
  const statusesOf = (event, reasons, mayEdit) => {
    if (event.rejection) return [make("li", {}, mark("rejected"), " ", make("bdi", { class: "muted" }, event.rejection.message))];
    const line = (each) => statusLine(each, reasons);
    const others = event.destinations.filter((each) => each.status === "not_routed");
    const lines = event.destinations.filter((each) => each.status !== "not_routed").map(line);
    if (!lines.length) {
      const isConnected = others.some((each) => each.reason !== "source_not_connected");
      const connect = make("a", { href: `/setup?source=${encodeURIComponent(event.source)}&step=catalog` }, "Connect a destination");
      lines.push(make("li", {}, mark(event.status || "not_routed"), " ", make("span", { class: "muted" }, "no destination gets it"),
        ...(mayEdit && !isConnected && isSource(event.source) ? [" ", connect] : [])));
    }
    if (others.length <= NOT_ROUTED_SHOWN) return [...lines, ...others.map(line)];
    const folded = make("details", {}, make("summary", {}, `${number(others.length)} other destinations do not get it`), make("ul", { class: "statuses" }, ...others.map(line)));
    return [...lines, make("li", {}, folded)];
  };
  const statusLine = (each, reasons) => {
    const last = each.attempts.at(-1);
    const shown = last ? `${outcomeWord(last.outcome)}${last.httpStatus ? ` ${last.httpStatus}` : ""}, attempt ${last.number}, ${took(last.milliseconds)}` : each.rule || each.detail || reasons[each.reason] || each.reason || "";
    return make("li", {}, mark(each.status), " ",
      make("a", { href: `/destinations/${encodeURIComponent(each.id)}` }, make("bdi", {}, each.id)), " ",
      make("bdi", { class: "muted" }, shown));
  };

  // The caller's JSON as it stands in the answer: parsing would lose how it was written. A text cannot hold these
  // marks, because quotes in it are escaped.
  const rawEvent = (text) => {
    const begin = text.indexOf(',"event":');
    const end = text.lastIndexOf(',"warnings":');
    if (begin < 0 || end < begin) return null;
    const raw = text.slice(begin + ',"event":'.length, end);
    const value = parse(raw);
    return typeof value === "string" ? value : raw; // what was no JSON at all is kept as a text
  };

  const curlOf = (event, raw, collect, keys) => {
    const path = event.type === "delete" ? "" : event.type;
    const key = keys[event.source] || "WRITE_KEY";
    return `curl ${quoted(`${collect}/v1/${path}`)} -u ${quoted(`${key}:`)} -H 'Content-Type: application/json' \\\n  --data-binary ${quoted(raw)}`;
  };

  const fetched = async (url, body) => {
    const answer = await fetch(url, body ? { method: "POST", body, headers: { "Content-Type": "application/json" } } : {});
    const text = await answer.text();
    if (answer.ok) return text;
    let detail = `The server answered ${answer.status}.`;
    try { detail = JSON.parse(text).detail || detail; } catch { /* no problem document */ }
    throw new Error(detail);
  };

  customElements.define("event-detail", EventDetail);
})();
