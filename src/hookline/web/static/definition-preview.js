// <definition-preview>: how many people the builder's definition finds, and some of them, before it is saved. It counts by
// itself once somebody stops typing; each count replaces the one before, since each reads the history that it needs.
// With data-against it says who joins and who leaves the saved audience of this id.
(() => {
  const { make, number } = hookline.elements;
  const { button, select } = hookline.controls;
  const LOOK_MS = 700;
  const PAUSE_MS = 900;
  const API = "/api/v1/audience-previews";

  class DefinitionPreview extends HTMLElement {
    #builder;
    #turn = 0;
    #timer = 0;
    #asked = "";
    #last = null;
    #found = null;
    #result = make("div", { role: "status" });
    #with = null;

    connectedCallback() {
      this.#builder = this.closest("form").querySelector("condition-builder, trait-builder");
      this.#builder.addEventListener("changed", () => this.#soon(false));
      this.#builder.addEventListener("change", () => this.#soon(true));
      this.append(make("h2", {}, "Preview"),
        make("p", { class: "hint" }, "Counted from stored events. Nothing is synced or saved."), this.#result);
      if (!this.isTrait) this.append(this.#choice());
      this.#soon(true);
    }

    // What it is compared with: the members it has now, or any other audience's.
    #choice() {
      const own = this.dataset.against || "";
      const others = JSON.parse(this.#builder.dataset.choices).audiences.map(({ id, name }) => [id, name]);
      if (!others.length) return "";
      this.#with = select([[own, own ? "the current members" : "no other audience"], ...others], own, "Compare with", () => { this.#asked = ""; this.hurry(); });
      return make("label", { class: "compare-with" }, make("span", { class: "muted" }, "Compare with "), this.#with);
    }

    get #against() { return this.#with ? this.#with.value : this.dataset.against || ""; }

    disconnectedCallback() { this.#turn += 1; clearTimeout(this.#timer); }

    // What the last count found, null while it is not known for what the form says now.
    get found() { return this.#found; }
    get isTrait() { return this.#builder.localName === "trait-builder"; }

    // A name that is still being typed is none that was sent: its history would be read for nothing.
    #soon(isTyped) {
      clearTimeout(this.#timer);
      const { asked } = this.#builder;
      const text = JSON.stringify(asked);
      if (text === this.#asked) return;
      this.#turn += 1;
      this.#asked = "";
      this.#tell(null);
      if (asked === null) {
        this.#say(make("p", { class: "muted" }, "Complete the definition to see how many people it finds."));
        return;
      }
      this.#say(make("p", { class: "muted" }, "Counting…"));
      const isName = document.activeElement?.matches?.(".name") && this.#builder.contains(document.activeElement);
      const isKnown = !isName || [...(document.activeElement.list?.options || [])].some(({ value }) => value === document.activeElement.value);
      if (isTyped || isKnown) this.#timer = setTimeout(() => this.#begin(asked, text), PAUSE_MS);
    }

    // Count now what the form says. Before it is saved, the members there are count, not another audience's.
    hurry(isSaving = false) {
      const own = this.dataset.against || "";
      if (isSaving && this.#with && this.#with.value !== own) { this.#with.value = own; this.#asked = ""; this.#tell(null); }
      const { asked } = this.#builder;
      const text = JSON.stringify(asked);
      if (asked === null || text === this.#asked) return;
      clearTimeout(this.#timer);
      this.#begin(asked, text);
    }

    async #begin(asked, text) {
      const turn = ++this.#turn;
      this.#asked = text;
      const against = this.#against ? { against: { audience: this.#against } } : {};
      const body = JSON.stringify({ ...asked, ...against, ...(this.#last ? { replaces: this.#last } : {}) });
      let { answer, json } = await fetched(API, { method: "POST", headers: { "Content-Type": "application/json" }, body });
      if (json?.id) this.#last = json.id;
      if (turn !== this.#turn) return;
      if (answer?.status === 422 && json?.errors?.length) {
        this.#tell({ failed: "the definition has an error." });
        this.#say(make("p", { class: "muted" }, "Correct the definition to see how many people it finds."));
        this.#builder.clear();
        for (const { detail, pointer } of json.errors) {
          this.#builder.dispatchEvent(new CustomEvent("refused", { cancelable: true, detail: { message: detail, pointer, isPreview: true } }));
        }
        return;
      }
      while (turn === this.#turn) {
        if (answer?.status === 401) { hookline.toSignIn(); return; }
        if (!answer?.ok) { this.#complain(json?.detail || "Hookline did not answer."); return; }
        this.#show(json);
        if (json.state === "done" || json.state === "failed") return;
        await new Promise((done) => { setTimeout(done, LOOK_MS); });
        if (turn === this.#turn) ({ answer, json } = await fetched(`${API}/${encodeURIComponent(json.id)}`, { headers: hookline.byItself }));
      }
    }

    #tell(found) {
      this.#found = found;
      this.dispatchEvent(new Event("counted", { bubbles: true }));
    }

    #say(...children) { this.#result.replaceChildren(...children); }

    #complain(message) {
      this.#asked = "";
      this.#tell({ failed: message });
      this.#say(make("p", { class: "error" }, `■ ${message}`), make("p", { class: "buttons" }, button("plain", "Count again", () => this.hurry())));
    }

    #show(preview) {
      const { state, progress, people, members, sample, detail, comparison } = preview;
      if (state === "failed") { this.#complain(detail); return; }
      const parts = [];
      if (state !== "done") {
        const word = state === "reading" ? "Reading stored events" : "Evaluating people";
        parts.push(make("p", { class: "muted" }, `${word}…`), make("progress", { class: "wide-bar", max: 1, value: progress, "aria-label": word }));
        if (detail) parts.push(make("p", { class: "hint" }, detail));
      }
      if (members !== null && people !== null) {
        const verb = this.isTrait ? " with a value" : "";
        parts.push(make("p", { class: "matched" }, make("strong", {}, number(members)), ` of ${number(people)} ${people === 1 ? "person" : "people"}${verb}${share(members, people)}`));
      }
      if (state === "done") {
        const doubt = doubtOf(members, people, this.isTrait);
        if (doubt) parts.push(make("p", { class: "doubt mark warn" }, make("span", { "aria-hidden": "true" }, "▲"), ` ${doubt}`));
      }
      const other = this.#against === (this.dataset.against || "") ? "" : this.#with.selectedOptions[0].textContent;
      if (comparison) parts.push(...(other ? overlap(comparison, other) : difference(comparison)));
      else if (sample.length) parts.push(make("h3", {}, "Examples"), make("ul", { class: "sampled" }, ...sample.slice(0, 5).map((each) => sampled(each, this.isTrait))));
      this.#say(...parts);
      if (state === "done") this.#tell(preview);
    }
  }

  const share = (members, people) => {
    if (!members || members === people) return "";
    const percent = (100 * members) / people;
    return ` (${percent < 0.1 ? "under 0.1" : Number(percent.toPrecision(percent < 10 ? 2 : 3))} %)`;
  };

  const doubtOf = (members, people, isTrait) => {
    if (!people) return "No person is known yet. Send events first.";
    if (!members) return isTrait ? "Nobody has a value yet." : "Nobody matches yet.";
    if (members === people && people > 1 && !isTrait) return "Everyone matches. Add a clause, unless you mean everyone.";
    return "";
  };

  // Who joins and who leaves by a change, as of the last sync.
  const difference = ({ members, added, removed, addedSample, removedSample }) => {
    const list = (title, sample) => (sample.length ? [make("h3", {}, title), make("ul", { class: "sampled" }, ...sample.slice(0, 5).map((each) => sampled(each, false)))] : []);
    return [
      make("p", {}, `Now ${number(members)} ${members === 1 ? "member" : "members"}: `, make("span", { class: "mark good" }, `+${number(added)} join`), ", ", make("span", { class: "mark off" }, `−${number(removed)} leave`)),
      ...list("Would join", addedSample), ...list("Would leave", removedSample),
    ];
  };

  const overlap = ({ members, kept, added, removed, addedSample, removedSample, keptSample }, other) => {
    const part = (count, title, sample) => [
      make("h3", {}, make("strong", {}, number(count)), " ", make("bdi", {}, title)),
      ...(sample.length ? [make("ul", { class: "sampled" }, ...sample.slice(0, 3).map((each) => sampled(each, false)))] : []),
    ];
    return [
      make("p", {}, make("bdi", {}, other), `: ${number(members)} at its last sync`),
      ...part(kept, "in both", keptSample), ...part(added, "only in this one", addedSample), ...part(removed, `only in ${other}`, removedSample),
    ];
  };

  const sampled = ({ userId, anonymousId, value }, isTrait) => {
    const kind = userId === null ? "anonymous" : "user";
    const id = userId ?? anonymousId ?? "";
    // A browser would take a name of dots for a step in the address.
    const href = id === "." || id === ".." ? `/people?${userId === null ? "anonymousId" : "userId"}=${id}` : `/people/${kind}/${encodeURIComponent(id)}`;
    return make("li", {}, make("a", { href }, make("bdi", {}, id)),
      isTrait ? make("bdi", { class: "mono" }, typeof value === "number" ? String(Number(value.toPrecision(15))) : JSON.stringify(value)) : null);
  };

  const fetched = async (url, options = {}) => {
    const answer = await fetch(url, { redirect: "error", ...options }).catch(() => null);
    return { answer, json: await answer?.json().catch(() => null) };
  };

  customElements.define("definition-preview", DefinitionPreview);
})();
