// <event-list>: thousands of events, newest first, of which only the visible rows are in the page.
//
// Items are {key, event, name, user} or {skipped: count}. The list keeps the newest BUFFER_MAX of them. It says with
// events what people do: "pick" (an item was selected), "open" (Enter or a double click), "away" and "back" (the top
// was left or reached again), "end" (the oldest row is in sight).
(() => {
  const { make, mark, moment, number, sourceName, sourceTitle } = hookline.elements;
  const BUFFER_MAX = 10_000;
  const ROWS_AROUND = 8;
  const AWAY_PIXELS = 4;

  class EventList extends HTMLElement {
    #items = []; // oldest first, so that a new one costs nothing
    #places = new Map();
    #rows = new Map();
    #space = make("div", { class: "rows" });
    #selected = null;
    #pressed = null;
    #away = false;
    #drawing = 0;

    connectedCallback() {
      this.tabIndex = 0;
      this.setAttribute("role", "listbox");
      this.append(this.#space);
      this.addEventListener("scroll", () => { this.#draw(); this.#tellPlace(); }, { passive: true });
      this.addEventListener("mousedown", (event) => { this.#pressed = event.button === 0 ? this.#at(event) : null; });
      this.addEventListener("mouseup", (event) => this.#released(event));
      this.addEventListener("click", (event) => { if (!event.detail) this.#pick(this.#at(event)); }); // without a pointer
      this.addEventListener("dblclick", () => this.#tell("open"));
      new ResizeObserver(() => this.#draw()).observe(this);
    }

    get size() { return this.#items.length; }
    get isFull() { return this.#items.length >= BUFFER_MAX; }
    get selected() { return this.#selected; }
    get visible() { return [...this.#rows.keys()].filter((item) => item.event); }
    get isAway() { return this.#away; }
    // The event at the top of what is in sight, and how much of it is above.
    get place() {
      const at = Math.floor(this.scrollTop / this.#rowHeight);
      const last = this.#items.length - 1 - at;
      const item = this.#items.slice(0, last + 1).findLast((each) => each.key);
      return item ? { key: item.key, above: this.scrollTop - at * this.#rowHeight } : null;
    }
    // Returns whether the place was reached: below it there may be too few rows to scroll so far.
    goTo({ key, above }) {
      this.#drawNow(); // the height of what was added is not known before
      const top = (this.#items.length - 1 - this.#items.indexOf(this.#places.get(key))) * this.#rowHeight + above;
      this.scrollTop = top;
      this.#tellPlace();
      this.#drawNow();
      return this.scrollTop > top - 1;
    }
    // Not by the scroll event, which comes later: what is added meanwhile would be held below.
    goToTop() {
      this.scrollTop = 0;
      this.#tellPlace();
    }
    checkEnd() { this.#draw(); } // says "end" again where the oldest row is in sight
    has(key) { return this.#places.has(key); }
    item(key) { return this.#places.get(key); }

    // Newer items, oldest of them first.
    add(items) {
      if (!items.length) return;
      for (const item of items) {
        const last = this.#items.at(-1);
        if (item.skipped && last?.skipped) last.skipped += item.skipped;
        else this.#items.push(item);
        if (item.key) this.#places.set(item.key, item);
      }
      this.#bound();
      if (this.#away) this.scrollTop += items.length * this.#rowHeight; // what is read stays where it is
      this.#draw();
    }

    // Older items, newest of them first, below what there is.
    addOlder(items) {
      this.#items = [...items.toReversed(), ...this.#items];
      for (const item of items) if (item.key) this.#places.set(item.key, item);
      this.#draw();
    }

    refresh(item) {
      this.#rows.get(item)?.replaceChildren(...eventRow(item).childNodes); // the row stays: it may be about to be pressed
      this.#draw();
    }

    remove(item) {
      this.#items = this.#items.filter((each) => each !== item);
      this.#places.delete(item.key);
      this.#draw();
    }

    clear() {
      this.#items = [];
      this.#places.clear();
      this.#selected = null;
      this.scrollTop = 0;
      this.#draw();
    }

    // The next older (1) or newer (-1) event.
    step(by) {
      let at = this.#selected ? this.#items.indexOf(this.#selected) : this.#items.length;
      do at -= by; while (this.#items[at]?.skipped);
      if (this.#items[at]) this.select(this.#items[at], true);
    }

    select(item, show = false) {
      const before = this.#selected;
      this.#selected = item;
      for (const each of [before, item]) {
        const row = each && this.#rows.get(each);
        if (row) row.setAttribute("aria-selected", String(each === item));
      }
      if (show) this.#show(item);
      this.setAttribute("aria-activedescendant", this.#rows.get(item)?.id || "");
      this.#tell("pick");
    }

    get #rowHeight() {
      return parseFloat(getComputedStyle(this).getPropertyValue("--row-height")) || 36;
    }

    #show(item) {
      const top = (this.#items.length - 1 - this.#items.indexOf(item)) * this.#rowHeight;
      if (top < this.scrollTop) this.scrollTop = top;
      else if (top + this.#rowHeight > this.scrollTop + this.clientHeight) {
        this.scrollTop = top + this.#rowHeight - this.clientHeight;
      }
      this.#drawNow();
    }

    #bound() {
      const over = this.#items.length - BUFFER_MAX;
      if (over > 0) for (const item of this.#items.splice(0, over)) this.#places.delete(item.key);
    }

    #draw() {
      if (!this.#drawing) this.#drawing = requestAnimationFrame(() => this.#drawNow());
    }

    #drawNow() {
      cancelAnimationFrame(this.#drawing);
      this.#drawing = 0;
      const height = this.#rowHeight;
      const count = this.#items.length;
      this.#space.style.height = `${count * height}px`;
      const first = Math.max(0, Math.floor(this.scrollTop / height) - ROWS_AROUND);
      const last = Math.min(count, Math.ceil((this.scrollTop + this.clientHeight) / height) + ROWS_AROUND);
      const wanted = new Set();
      for (let place = first; place < last; place += 1) wanted.add(this.#items[count - 1 - place]);
      for (const [item, row] of this.#rows) {
        if (!wanted.has(item)) { row.remove(); this.#rows.delete(item); }
      }
      let place = first;
      for (const item of wanted) this.#place(item, place++, count, height);
      this.dispatchEvent(new Event("drawn"));
      if (last === count) this.#tell("end");
    }

    #place(item, place, count, height) {
      let row = this.#rows.get(item);
      if (!row) {
        row = item.skipped ? skippedRow(item) : eventRow(item);
        row.id ||= `row-${(EventList.drawn = (EventList.drawn || 0) + 1)}`;
        row.setAttribute("aria-selected", String(item === this.#selected));
        this.#rows.set(item, row);
        this.#space.append(row);
      }
      if (item.skipped) row.firstElementChild.textContent = skippedText(item.skipped);
      row.style.transform = `translateY(${place * height}px)`;
      row.setAttribute("aria-posinset", String(place + 1));
      row.setAttribute("aria-setsize", String(count));
    }

    // What was pressed is meant, also where rows have moved on, or were made anew, until the press ended: there is no
    // click then. Not by text that is selected over several.
    #released(event) {
      if (this.#at(event) === this.#pressed || getSelection().isCollapsed) this.#pick(this.#pressed);
      this.#pressed = null;
    }

    #pick(item) { if (item?.event) this.select(item); }

    #at(event) {
      const row = event.target.closest("[role=option]");
      return row && [...this.#rows].find(([, each]) => each === row)?.[0];
    }

    #tellPlace() {
      const away = this.scrollTop > AWAY_PIXELS;
      if (away === this.#away) return;
      this.#away = away;
      this.#tell(away ? "away" : "back");
    }

    #tell(what) { this.dispatchEvent(new CustomEvent(what, { detail: this.#selected })); }
  }

  const eventRow = (item) => make("div", { role: "option", class: "event-row" },
    make("span", { class: "event-status", title: item.each }, mark(item.status, item.word)),
    make("span", { class: "event-what" },
      make("span", { class: "type" }, make("bdi", {}, item.event.type)), item.isErased ? make("span", { class: "muted" }, "content erased") : make("bdi", { class: "cut" }, item.name || item.event.messageId)),
    make("bdi", { class: "event-user mono cut" }, item.user),
    make("bdi", { class: "event-source cut", title: sourceTitle(item.event.source) }, sourceName(item.event.source)),
    make("span", { class: "event-time" }, moment(item.event.receivedAt)));

  const skippedText = (count) => `${number(count)} more arrived here too fast to show. They are stored and delivered. Filter to see fewer.`;
  const skippedRow = (item) => make("div", { role: "option", class: "event-row skipped", "aria-disabled": "true" },
    make("span", { class: "muted" }, skippedText(item.skipped)));

  customElements.define("event-list", EventList);
})();
