// <mapping-editor>: the requests that events become at a destination, written with completion of the paths of real
// events, and beside it the exact request for one of them, made anew as one types. Errors are shown where they are.
(() => {
  const { make, titleOf, parse: exact } = hookline.elements;
  const { button, save, select } = hookline.controls;
  const { parse, lineOf } = hookline.jsonPlaces;
  const WAIT_MS = 300;
  const METHODS = ["POST", "PUT", "PATCH", "DELETE", "GET", "OPTIONS"].map((each) => [each, each]);
  const BODIES = [["", "the webhook's JSON"], ["body", "JSON"], ["form", "form fields"], ["raw", "text"]];
  const NOTHING = "Hookline did not answer. Try again in a moment.";
  const FRESH = { name: "Send event", method: "POST", url: "https://", body: { event: { "@path": "$.event" }, userId: { "@path": "$.userId" }, properties: { "@path": "$.properties" } } };
  let ids = 0;

  // One value of a query or a header as a line of text, and back: $.path, text with {{path}}, or a directive as JSON.
  // What a number would not be written as, such as 1.0 or 007, is a text.
  const fromText = (text) => {
    if (text.startsWith("$.")) return { "@path": text };
    if (/^-?\d/.test(text) && String(Number(text)) === text) return Number(text);
    if (/^(\{(?!\{)|\[|"|true$|false$|null$)/.test(text)) { try { return exact(text); } catch { /* a text like any other */ } }
    return text.includes("{{") ? { "@template": text } : text;
  };
  const toText = (value) => {
    const short = value?.["@path"] ?? value?.["@template"] ?? value;
    return typeof short === "string" && JSON.stringify(fromText(short)) === JSON.stringify(value) ? short : JSON.stringify(value);
  };
  const isFilled = (value) => value !== undefined && value !== null && JSON.stringify(value) !== "{}";
  const pretty = (value) => JSON.stringify(value, null, 2);
  const copyOf = (value) => exact(JSON.stringify(value)); // structuredClone makes objects of exact numbers

  class MappingEditor extends HTMLElement {
    #requests = [];
    #presets = [];
    #destination = {};
    #own = false;
    #saved = "";
    #rounded;
    #list = make("ol", { class: "requests" });
    #problem = make("p", { class: "error", role: "alert" });
    #said = make("p", { class: "said", role: "status" });
    #result = make("div", { class: "previewed" });
    #pick = make("select", { id: "preview-event" });
    #recent = new Map();
    #paths = new Map();
    #timer = 0;
    #turn = 0;
    #sending = false; // for real: its answer is shown, whatever is typed meanwhile
    #late = false; // something was changed while a test was under way
    #saving = false;
    #testButton;
    #reset;

    connectedCallback() {
      this.#destination = JSON.parse(this.dataset.destination);
      this.#presets = exact(this.dataset.presets);
      const own = exact(this.dataset.mapping);
      this.#own = own !== null;
      this.#rounded = hookline.fields.rounded(this.#own ? this.dataset.mapping : this.dataset.presets);
      this.#saved = JSON.stringify(own);
      this.#requests = (own ?? this.#presets).map((each) => ({ ...each }));
      if (this.closest(".looking")) { this.#showOnly(); return; }
      if (!this.#requests.length) this.#requests.push(structuredClone(FRESH));
      this.#collect();
      this.#build();
      this.#draw(0);
      this.#offer();
    }

    // What may be saved. Throws with the place where the text is no JSON.
    get mapping() {
      return this.#requests.map((request, index) => {
        if (request.broken?.size) {
          const [[place, message]] = request.broken;
          throw Object.assign(new Error(message), { pointer: ["", "mapping", index, place].join("/") });
        }
        const made = {};
        for (const key of ["name", "if", "method", "url", "query", "headers", "body", "form", "raw", "success", "batch"]) {
          const value = request[key];
          if (key in request && (key === "body" || key === "raw" || key === "form" || key === "url" || key === "name" ? value !== undefined : isFilled(value) && value !== "")) made[key] = value;
        }
        return made;
      });
    }

    // --- the parts of the page

    #build() {
      const add = button("plain", "Add a request", () => {
        if (this.#requests.length >= Number(this.dataset.max)) return;
        this.#requests.push({ ...structuredClone(FRESH), name: `Request ${this.#requests.length + 1}` });
        this.#draw(this.#requests.length - 1);
        this.#list.lastElementChild.querySelector("input").focus();
      });
      this.#reset = make("button", { type: "button", class: "plain", "data-dialog": "to-presets" }, "Use the kind's own requests");
      document.querySelector("[data-to-presets]").addEventListener("click", () => this.#toPresets());
      this.#reset.hidden = !this.#own || !this.#presets.length;
      this.#testButton = button("plain", "Send test", () => this.#test());
      this.#pick.append(make("option", { value: "" }, "newest event"),
        make("optgroup", { label: "Samples" }, ...JSON.parse(this.dataset.samples).map((each) => make("option", { value: `sample:${each}` }, each))));
      this.#pick.addEventListener("change", () => {
        this.#testButton.textContent = this.#pick.value === "sample:delete" ? "Send delete message" : "Send test";
        this.#preview(0);
      });
      this.append(
        make("div", {}, make("h2", {}, "Requests"),
          make("p", { class: "empty" }, this.#presets.length && !this.#own ? "These requests come with the kind. Once you save a change, this destination keeps its own copy." : "For each event, Hookline sends every request whose condition matches. An event that matches none is filtered."),
          this.#list, this.#problem, this.#said,
          make("p", { class: "buttons" }, button("primary", "Save", () => this.#save()), add, this.#reset)),
        make("div", { class: "beside-form" }, make("h2", {}, "Preview"),
          make("div", { class: "field" }, make("label", { for: "preview-event" }, "For the event"), this.#pick),
          make("p", { class: "buttons" }, this.#testButton, make("span", { class: "hint" }, "Sends this request now, saved or not. It does not count as a delivery.")),
          this.#result));
      this.#result.setAttribute("aria-live", "polite");
    }

    #draw(open = -1) {
      const was = [...this.#list.children].map((each) => each.querySelector("details").open);
      this.#list.replaceChildren(...this.#requests.map((request, index) => this.#card(request, index, index === open || Boolean(was[index]))));
      this.#changed();
    }

    #card(request, index, isOpen) {
      request.broken ??= new Map();
      const place = (key, ...more) => make("p", { class: "error", "data-at": key }, ...more);
      const field = (key, label, control, hint = "") => {
        const id = `mapping-${++ids}`;
        const input = control.matches?.("input, textarea, select") ? control : control.querySelector("input, textarea, select");
        input.id = id;
        return make("div", { class: "field" }, make("label", { for: id }, label), control, hint ? make("p", { class: "hint" }, hint) : null, place(key));
      };
      const line = (key, value, take, mode, more = {}) => {
        const made = make("input", { type: "text", autocomplete: "off", spellcheck: "false", ...more });
        made.value = value ?? "";
        made.addEventListener("input", () => { take(made.value); this.#changed(); });
        return mode ? hookline.paths.attach(made, mode, () => this.#paths) : made;
      };
      const json = (key, label, hint, rows = 8) => {
        const area = make("textarea", { rows: String(rows), spellcheck: "false" });
        area.value = request[key] === undefined || request[key] === null ? "" : pretty(request[key]);
        area.addEventListener("input", () => {
          request.broken.delete(key);
          if (!area.value.trim()) delete request[key];
          else try { request[key] = parse(area.value); } catch (error) { request.broken.set(key, error.message); }
          this.#changed();
        });
        return field(key, label, hookline.paths.attach(area, "json", () => this.#paths), hint);
      };

      const title = make("span", {}, "");
      const retitle = () => { title.replaceChildren(make("strong", {}, make("bdi", {}, request.name || "unnamed")), make("span", { class: "mono muted cut" }, ` ${request.method ?? "POST"} ${urlText(request.url)}`)); };
      const urlText = (url) => (typeof url === "string" ? url : url?.["@template"] ?? JSON.stringify(url ?? ""));
      retitle();

      const kind = ["body", "form", "raw"].find((each) => each in request) ?? "";
      const bodyPlace = make("div", {});
      const drawBody = (key) => {
        if (!key) { bodyPlace.replaceChildren(make("p", { class: "hint" }, "The JSON body that webhooks get, with all fields of the event."), place("body")); return; }
        if (key === "raw") {
          const area = make("textarea", { rows: "4", spellcheck: "false" });
          area.value = toText(request.raw ?? "");
          area.addEventListener("input", () => { request.raw = fromText(area.value); this.#changed(); });
          bodyPlace.replaceChildren(field("raw", "Text", hookline.paths.attach(area, "mapped", () => this.#paths), "Text with {{path}}, or $.path alone."));
          return;
        }
        bodyPlace.replaceChildren(json(key, key === "body" ? "JSON body" : "Form fields, as JSON", 'For a value of the event, write {"@path": "$.properties.total"}; for text, {"@template": "Order {{properties.orderId}}"}.', 12));
      };
      drawBody(kind);
      const choose = select(BODIES, kind, "Body", (chosen) => {
        const before = ["body", "form", "raw"].find((each) => each in request);
        const old = before && before !== "raw" ? request[before] : undefined;
        for (const each of ["body", "form", "raw"]) { delete request[each]; request.broken.delete(each); }
        if (chosen === "raw") request.raw = "";
        else if (chosen) request[chosen] = old ?? structuredClone(FRESH.body);
        drawBody(chosen);
        this.#changed();
      });
      const more = make("details", {}, make("summary", {}, "Batches and answers"),
        json("batch", "Batch", 'Gathers events into one request: {"size": 100, "wait": 1, "format": "array"}. Leave empty for one request per event.', 4),
        json("success", "What answers mean", 'Expressions over status, body, text and headers: {"if": "body.ok = true", "retry": "status = 409"}. Leave empty to accept any 2xx.', 4));
      if (request.batch || request.success) more.open = true;

      const at = (by) => {
        const [taken] = this.#requests.splice(index, 1);
        this.#requests.splice(index + by, 0, taken);
        this.#draw(index + by);
        this.#list.children[index + by].querySelector(by < 0 ? "[data-up]" : "[data-down]").focus();
      };
      const details = make("details", { open: isOpen }, make("summary", {}, title),
        make("div", { class: "request-fields" },
          field("name", "Name", line("name", request.name, (value) => { request.name = value; retitle(); }, null, { maxlength: "100" })),
          field("if", "If", line("if", request.if, (value) => { if (value.trim()) request.if = value; else delete request.if; }, "expression", { placeholder: 'type = "track"', class: "mono" }), "Leave empty for every event."),
          make("div", { class: "method-url" },
            field("method", "Method", select(METHODS, request.method ?? "POST", "Method", (value) => { request.method = value; retitle(); this.#changed(); })),
            field("url", "URL", line("url", urlText(request.url), (value) => { request.url = value; retitle(); }, "template", { class: "mono", inputmode: "url" }))),
          this.#pairs(request, "query", "Query"), this.#pairs(request, "headers", "Headers"),
          field("", "Body", choose), bodyPlace, more,
          make("p", { class: "buttons" },
            button("quiet", "↑", () => at(-1), { "aria-label": "Earlier", "data-up": true, disabled: index === 0 }),
            button("quiet", "↓", () => at(1), { "aria-label": "Later", "data-down": true, disabled: index === this.#requests.length - 1 }),
            button("quiet", "Duplicate", () => {
              const { broken, ...copied } = request;
              this.#requests.splice(index + 1, 0, { ...copyOf(copied), name: `${request.name} copy`.slice(0, 100) });
              this.#draw(index + 1);
            }),
            button("quiet", "Remove", () => { this.#requests.splice(index, 1); this.#draw(); }, { disabled: this.#requests.length === 1 }))));
      return make("li", {}, details, make("p", { class: "error", "data-at": "*" }));
    }

    // Names and values, one pair in a row. A value stays as it is until somebody types in its field.
    #pairs(request, key, label) {
      const rows = Object.entries(request[key] ?? {}).map(([name, value]) => ({ name, text: toText(value), value }));
      const list = make("ul", { class: "rows" });
      const write = () => {
        request[key] = Object.fromEntries(rows.filter(({ name }) => name).map(({ name, value }) => [name, value]));
        this.#changed();
      };
      const draw = () => list.replaceChildren(...rows.map((row, index) => {
        const problem = make("p", { class: "error", "data-at": `${key}/${row.name}` });
        const input = (part, word) => {
          const made = make("input", { type: "text", "aria-label": `${label}: ${word} ${index + 1}`, placeholder: word, autocomplete: "off", spellcheck: "false", class: "mono" });
          made.value = row[part];
          made.addEventListener("input", () => { row[part] = made.value; if (part === "text") row.value = fromText(made.value); problem.dataset.at = `${key}/${row.name}`; write(); });
          return made;
        };
        return make("li", {}, input("name", "name"), hookline.paths.attach(input("text", "value"), "mapped", () => this.#paths),
          button("quiet", "×", () => { rows.splice(index, 1); draw(); write(); }, { "aria-label": `Remove ${row.name || "this"}` }),
          problem);
      }));
      draw();
      const hint = key === "headers" ? `Text, $.path, or text with {{path}}. A credential belongs in the settings${this.#destination.kind === "http" ? ": Bearer {{settings.secrets.NAME}}" : ""}.` : "Text, $.path, or text with {{path}}.";
      return make("fieldset", {}, make("legend", {}, label), list,
        make("p", { class: "buttons" }, button("quiet", `Add ${key === "query" ? "a parameter" : "a header"}`, () => { rows.push({ name: "", text: "", value: "" }); draw(); list.lastElementChild.querySelector("input").focus(); })),
        make("p", { class: "hint" }, hint), make("p", { class: "error", "data-at": key }));
    }

    // --- the preview

    #changed() {
      this.#said.textContent = "";
      this.#preview(WAIT_MS);
    }

    #preview(wait) {
      clearTimeout(this.#timer);
      this.#late = this.#sending;
      if (!this.#sending) this.#timer = setTimeout(() => this.#look(), wait);
    }

    #chosen() {
      const [kind, id] = [this.#pick.value.slice(0, this.#pick.value.indexOf(":")), this.#pick.value.slice(this.#pick.value.indexOf(":") + 1)];
      if (kind === "sample") return { sample: id };
      return kind === "event" ? { messageId: id, source: this.#recent.get(id) } : {};
    }

    // A late one only says at the fields what is wrong now: the answer stays until the next change.
    async #look(isLate = false) {
      this.#late = false;
      const turn = ++this.#turn;
      try {
        const report = await hookline.preview.ask({ destination: { ...this.#destination, mapping: this.mapping }, ...this.#chosen() });
        if (turn !== this.#turn) return;
        const left = this.#show(report.problems);
        if (!isLate) this.#result.replaceChildren(...hookline.preview.draw(report, left));
      } catch (error) {
        if (turn !== this.#turn) return;
        if (error.pointer) this.#show([{ pointer: error.pointer, detail: error.message }]);
        if (!isLate) this.#result.replaceChildren(make("p", { class: "muted" }, error.pointer ? "The preview returns when the JSON is complete." : `■ ${error.message}`));
      }
    }

    // Shows each problem at its field; returns those that have none here.
    #show(problems) {
      for (const place of this.#list.querySelectorAll("[data-at]")) place.textContent = "";
      for (const field of this.#list.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
      return problems.filter(({ pointer, detail }) => {
        const [, first, index, ...rest] = pointer.split("/");
        const card = first === "mapping" ? this.#list.children[Number(index)] : null;
        if (!card) return true;
        const places = [...card.querySelectorAll("[data-at]")];
        const inner = rest.join("/");
        const at = (key) => places.find((each) => each.dataset.at === key);
        const place = (inner && (at(rest.slice(0, 2).join("/")) || at(rest[0]))) || at("*");
        const field = place.dataset.at === "*" ? null : place.parentElement.querySelector("input, textarea, select");
        const line = field?.tagName === "TEXTAREA" && rest.length > 1 ? `Line ${lineOf(field.value, `/${rest.slice(1).join("/")}`)}: ` : "";
        place.textContent = `■ ${line}${detail}`;
        field?.setAttribute("aria-invalid", "true");
        for (let around = place.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
        return false;
      });
    }

    async #test() {
      if (this.#sending) return;
      let mapping;
      try { mapping = this.mapping; } catch (error) { this.#show([{ pointer: error.pointer, detail: error.message }]); return; }
      clearTimeout(this.#timer);
      this.#testButton.disabled = this.#sending = true;
      try { await this.#send(mapping); } finally { this.#testButton.disabled = this.#sending = false; }
      if (this.#late) this.#look(true);
    }

    async #send(mapping) {
      this.#turn += 1; // answers to previews come too late now
      const body = { mapping, ...this.#chosen() };
      if (!body.sample && !body.messageId) {
        const [newest] = this.#recent.keys();
        if (newest) { body.messageId = newest; body.source = this.#recent.get(newest); }
      }
      const answer = await fetch(`${this.dataset.api}/test`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }).catch(() => null);
      const report = await answer?.json().catch(() => null);
      if (!answer?.ok) {
        const left = this.#show(report?.errors || []);
        this.#result.replaceChildren(make("p", { class: "error", role: "alert" }, `■ ${left[0]?.detail || report?.detail || NOTHING}`));
        return;
      }
      const left = this.#show(report.problems);
      this.#result.replaceChildren(
        ...left.map(({ detail }) => make("p", { class: "error" }, `■ ${detail}`)),
        ...report.requests.flatMap((each, index) => [make("h3", {}, make("bdi", {}, each.name || each.url)), hookline.asSent.answer(report.answers[index]), hookline.asSent.request(each)]),
        report.requests.length ? "" : make("p", { class: "muted" }, `Nothing was sent: ${(report.type === "delete" && report.routing.reason) || report.routing.stoppedBy || "no request could be made"}.`));
    }

    // --- saving

    // Not twice at once: the second would take the first for a change of somebody else.
    async #patch(mapping, words) {
      if (this.#saving) return false;
      this.#saving = true;
      this.#problem.textContent = "";
      const answer = await save(this.dataset.api, "mapping", mapping, this.#saved).catch(() => null);
      this.#saving = false;
      const json = answer?.json;
      if (answer?.ok) {
        this.#saved = JSON.stringify(json.mapping);
        this.#own = mapping !== null;
        this.#reset.hidden = !this.#own || !this.#presets.length;
        this.#said.textContent = words;
        return true;
      }
      if (answer?.status === 401) hookline.toSignIn();
      const left = this.#show(json?.errors || []);
      this.#problem.textContent = `■ ${json ? left.map((each) => each.detail).join(" ") || json.detail : NOTHING}`;
      return false;
    }

    #save() {
      if (this.#rounded) {
        this.#problem.textContent = `■ This browser would save the number ${this.#rounded} as ${Number(this.#rounded)}. Use a newer one, or change the mapping with hookline apply.`;
        return;
      }
      let mapping;
      try { mapping = this.mapping; } catch (error) { this.#show([{ pointer: error.pointer, detail: error.message }]); return; }
      this.#patch(mapping, "Saved. Applies to events sent from now on.");
    }

    async #toPresets() {
      if (!await this.#patch(null, "This destination uses the kind's own requests again.")) return;
      const said = this.#said.textContent;
      this.#requests = copyOf(this.#presets);
      this.#draw(0);
      this.#list.querySelector("summary").focus(); // the button that was used is hidden now
      this.#said.textContent = said;
    }

    // --- events and their paths

    #collect() {
      hookline.paths.collect(this.#destination.settings || {}, this.#paths, "settings");
      for (const name of ["type", "event", "userId", "anonymousId", "messageId", "timestamp", "receivedAt", "source"]) if (!this.#paths.has(name)) this.#paths.set(name, "");
    }

    async #offer() {
      const group = make("optgroup", { label: "Recent events", hidden: true });
      this.#pick.firstElementChild.after(group);
      for (const source of this.#destination.sources.slice(0, 3)) {
        const found = await this.#fetched(`/api/v1/events?limit=20&source=${encodeURIComponent(source)}`);
        for (const each of found?.items || []) {
          if (!each.event || typeof each.event !== "object" || each.rejection) continue;
          this.#recent.set(each.messageId, each.source);
          hookline.paths.collect(each.event, this.#paths);
          const name = titleOf(each.type, each.event) || each.messageId;
          group.append(make("option", { value: `event:${each.messageId}` }, `${each.type} ${name.slice(0, 60)}`));
        }
        const schema = await this.#fetched(`/api/v1/sources/${encodeURIComponent(source)}/schema?limit=100`);
        for (const { type, properties } of schema?.items || []) {
          const under = type === "identify" || type === "group" ? "traits" : "properties";
          for (const { path, types } of properties) {
            const dotted = `${under}.${path.replaceAll("/", ".")}`;
            if (!this.#paths.has(dotted)) this.#paths.set(dotted, Object.keys(types)[0] || "");
          }
        }
      }
      group.hidden = !this.#recent.size;
    }

    async #fetched(url) {
      const answer = await fetch(url).catch(() => null);
      return answer?.ok ? answer.json().catch(() => null) : null;
    }

    // --- for somebody who may not change it

    #showOnly() {
      this.append(make("div", {}, make("h2", {}, "Requests"), make("ol", { class: "requests" }, ...this.#requests.map((each) => {
        const { name, if: condition, method, url, ...rest } = each;
        return make("li", {}, make("h3", {}, make("bdi", {}, name)),
          make("p", {}, make("span", { class: "muted" }, "if "), make("code", {}, make("bdi", {}, condition || "every event"))),
          make("p", { class: "mono" }, `${method ?? "POST"} `, make("bdi", {}, typeof url === "string" ? url : JSON.stringify(url))),
          Object.keys(rest).length ? make("div", { class: "paste" }, make("pre", { tabindex: "0" }, make("code", {}, pretty(rest)))) : null);
      })), make("p", { class: "hint" }, "Your role is viewer. Editors can change requests.")));
    }
  }

  customElements.define("mapping-editor", MappingEditor);
})();
