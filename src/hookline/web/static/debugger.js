// The live debugger: the filtered event stream into the list, with pause, and the picked event beside it.
(() => {
  const root = document.querySelector("[data-debugger]");
  if (!root) return;
  const { useMarks, markOf, number, parse, titleOf } = hookline.elements;
  const PAGE_EVENTS = 50;
  const PAGE_EVENTS_BACK = 200;
  const BACK_PAGES_MORE = 5;
  const PLACE = "events-place";
  const PENDING_MAX = 10_000;
  const OPEN_LOOK_MS = 3000;
  const OPEN_LOOK_EVENTS_MAX = 10;
  const RECONNECT_MS = 2000;
  const FILTER_MS = 300;
  const ASIDE = new Set(["not_routed", "filtered", "suppressed", "duplicate"]);
  const RANGE_SECONDS = { "1h": 3600, "24h": 86400, "7d": 7 * 86400, "30d": 30 * 86400 };
  const OPEN_STATUSES = new Set(["queued", "retrying"]);

  const form = root.querySelector("form");
  const list = root.querySelector("event-list");
  const detail = root.querySelector("event-detail");
  const state = root.querySelector("[data-said]");
  const pauseButton = root.querySelector("[data-pause]");
  const resume = root.querySelector("[data-resume]");
  const empty = root.querySelector("[data-empty]");
  const light = document.getElementById("light");
  useMarks(JSON.parse(root.dataset.marks));

  const paused = { button: false, away: false, text: false };
  let pending = [];
  let pendingSkipped = 0;
  let older = null; // the cursor of what is below the list; null: nothing, or not asked yet
  let loading = false;
  let failing = false; // what came before could not be read
  let stream = null;
  let pages = 0; // read for this list
  let back = null; // where somebody was who comes back to this list
  let turn = 0; // counts filter changes: answers of earlier ones are thrown away

  // --- events as items of the list
  const itemOf = (event) => {
    const key = JSON.stringify([event.source, event.messageId, event.receivedAt]);
    const at = `${encodeURIComponent(event.messageId)}?source=${encodeURIComponent(event.source)}`;
    return dressed({ key, href: `/events/${at}`, api: `/api/v1/events/${at}` }, event);
  };
  const dressed = (item, event) => {
    const body = event.event && typeof event.event === "object" ? event.event : {};
    const anonymous = typeof body.anonymousId === "string" ? body.anonymousId : "";
    return Object.assign(item, { event, isErased: event.status === "erased", status: statusOf(event), ...said(event), name: titleOf(event.type, body), user: event.userId || anonymous });
  };
  // What a row says of an event's destinations: as features/events does for the overview.
  const said = (event) => {
    const concerned = event.destinations.filter((each) => each.status !== "not_routed");
    const due = concerned.filter((each) => !ASIDE.has(each.status));
    if (event.rejection || due.length < 2) return { word: "", each: "" };
    const delivered = due.filter((each) => each.status === "delivered").length;
    const each = concerned.map(({ id, status }) => `${id} ${markOf(status).word}`).join(", ");
    return { word: `${delivered} of ${due.length} delivered`, each };
  };
  const statusesOf = (event) => {
    const statuses = event.destinations.map((each) => each.status).filter((status) => status !== "not_routed");
    return statuses.length ? statuses : [event.status || "not_routed"];
  };
  const statusOf = (event) => statusesOf(event).reduce((worst, status) => (markOf(status).rank < markOf(worst).rank ? status : worst));
  const isWanted = (event) => {
    const query = askedOfServer();
    const at = new Date(event.receivedAt);
    if (query.has("from") && at < new Date(query.get("from"))) return false;
    if (query.has("to") && at >= new Date(query.get("to"))) return false;
    const [status, destination] = [query.get("status"), query.get("destination")];
    if (!destination) return !status || statusesOf(event).includes(status);
    const there = event.destinations.find((each) => each.id === destination)?.status || "not_routed";
    return status ? there === status : there !== "not_routed";
  };

  // --- filters, which are the address
  const asked = () => {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    for (const name of ["from", "to"]) if (query.has(name)) query.set(name, new Date(query.get(name)).toISOString());
    return query;
  };
  // The same as the API takes it: a range is back from now.
  const askedOfServer = () => {
    const query = asked();
    const seconds = RANGE_SECONDS[query.get("range")];
    query.delete("range");
    if (seconds) { query.set("from", new Date(Date.now() - seconds * 1000).toISOString()); query.delete("to"); }
    return query;
  };
  const filter = () => {
    const query = asked().toString();
    history.replaceState(null, "", query ? `?${query}` : location.pathname);
    turn += 1;
    list.clear();
    pending = [];
    pendingSkipped = 0;
    older = null;
    back = null;
    pages = 0;
    begin();
  };
  let filterTimer = 0;
  form.addEventListener("input", () => { clearTimeout(filterTimer); filterTimer = setTimeout(filter, FILTER_MS); });
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(filterTimer); filter(); });
  form.addEventListener("reset", () => setTimeout(filter));

  form.querySelector("[data-more-filters]").addEventListener("click", (event) => {
    form.classList.add("all");
    event.target.remove();
  });

  // --- what comes
  const begin = () => {
    stream?.close();
    const query = asked();
    for (const name of ["status", "destination", "range", "from", "to"]) query.delete(name); // looked at here: it changes
    for (const link of root.querySelectorAll("[data-export]")) {
      const wanted = askedOfServer();
      wanted.set("format", link.dataset.export);
      link.href = `/api/v1/events/export?${wanted}`;
    }
    stream = new EventSource(`/api/v1/events/stream?${query}`);
    const mine = turn;
    // What was there is asked for once the stream is open: before, an event between the two would be in neither.
    let decided;
    const behind = new Promise((resolve) => { decided = resolve; }).then(() => mine === turn && load(mine));
    const taking = (take) => async (message) => { await behind; if (mine === turn) take(message); };
    stream.onopen = () => { decided(); say("good", "live"); more(); };
    stream.addEventListener("event", taking((message) => came(parse(message.data))));
    stream.addEventListener("status", taking((message) => changed(parse(message.data))));
    stream.addEventListener("skipped", taking((message) => skipped(JSON.parse(message.data).count)));
    stream.onerror = () => {
      decided();
      say("warn", "reconnecting");
      if (stream.readyState !== EventSource.CLOSED || mine !== turn) return;
      setTimeout(async () => {
        if (mine !== turn) return;
        const answer = await fetch("/api/v1/events?limit=1", { headers: hookline.byItself }).catch(() => null);
        if (answer?.status === 401) hookline.toSignIn();
        else { back ||= here(); turn += 1; list.clear(); older = null; pages = 0; begin(); }
      }, RECONNECT_MS);
    };
  };
  const say = (kind, word) => {
    light.dataset.state = kind;
    light.querySelector("[data-word]").textContent = word;
  };

  const came = (event) => {
    if (!isWanted(event)) return;
    const item = itemOf(event);
    if (list.has(item.key)) { update(list.item(item.key), event); return; }
    if (isPaused()) hold(item); else { list.add([item]); tell(); }
  };
  const hold = (item) => {
    pending.push(item);
    if (pending.length > PENDING_MAX) { pending.shift(); pendingSkipped += 1; }
    tell();
  };
  const changed = (event) => {
    const key = itemOf(event).key;
    const item = list.item(key) || pending.find((each) => each.key === key);
    if (item) update(item, event); else came(event);
  };
  const update = (item, event) => {
    dressed(item, event);
    list.refresh(item);
    detail.refresh(item);
  };
  const skipped = (count) => {
    if (isPaused()) hold({ skipped: count }); else list.add([{ skipped: count }]);
    tell();
  };

  // --- what came before
  const load = async (mine) => {
    if (loading === mine) return;
    loading = mine;
    tell();
    failing = false;
    try {
      const query = askedOfServer();
      query.set("limit", back ? PAGE_EVENTS_BACK : PAGE_EVENTS);
      if (older) query.set("after", older);
      const answer = await fetch(`/api/v1/events?${query}`, { headers: back ? hookline.byItself : {} });
      if (mine !== turn) return;
      if (answer.status === 401) { hookline.toSignIn(); return; }
      failing = answer.status === 429 || answer.status >= 500;
      if (!answer.ok) { if (!failing) older = null; return; }
      const page = parse(await answer.text());
      if (mine !== turn) return;
      older = page.after;
      pages += 1;
      list.addOlder(page.items.map(itemOf).filter((item) => !list.has(item.key)));
      if (back) comeBack();
    } catch {
      failing = mine === turn;
    } finally {
      if (failing && loading === mine) setTimeout(() => again(mine), RECONNECT_MS);
      else if (loading === mine) loading = false;
      tell();
    }
    if (back) more();
  };
  // What could not be read is asked for again: until then nothing says that there is no more.
  const again = (mine) => {
    if (loading === mine) loading = false;
    if (mine === turn) load(mine);
  };
  // A slow search gives short pages, or none, with a cursor: it goes on until the rows fill what is in sight, or nobody looks.
  const more = () => { if (older && !list.isFull && loading === false && !document.hidden) load(turn); };
  list.addEventListener("end", more);
  document.addEventListener("visibilitychange", () => list.checkEnd());

  // --- coming back: the list has only its newest events then
  const comeBack = () => {
    if (back.picked && list.has(back.picked)) { list.select(list.item(back.picked)); back.picked = null; }
    if (back.place && list.has(back.place.key) && list.goTo(back.place)) back.place = null;
    // What is not found in as many pages, and some for what is new, is gone: nobody searches a whole journal for it.
    if (!(back.picked || back.place) || !older || pages >= back.pages + BACK_PAGES_MORE) back = null;
  };
  const here = () => ({ picked: list.selected?.key, place: list.isAway ? list.place : null, pages });
  const leave = () => {
    try { sessionStorage.setItem(PLACE, JSON.stringify({ address: location.href, ...here() })); } catch { /* full, or not allowed */ }
  };
  const kept = () => {
    if (performance.getEntriesByType("navigation")[0]?.type !== "back_forward") return null;
    try {
      const found = JSON.parse(sessionStorage.getItem(PLACE));
      return found?.address === location.href && (found.picked || found.place) ? found : null;
    } catch { return null; }
  };
  addEventListener("pagehide", leave);

  // --- pause
  const isPaused = () => paused.button || paused.away || paused.text;
  const pause = (why, on) => {
    if (paused[why] === on) return;
    paused[why] = on;
    if (!isPaused() && (pending.length || pendingSkipped)) {
      list.add(pendingSkipped ? [{ skipped: pendingSkipped }, ...pending] : pending);
      pending = [];
      pendingSkipped = 0;
    }
    tell();
  };
  const toggle = () => (isPaused() ? goOn() : pause("button", true));
  const goOn = () => {
    getSelection().removeAllRanges();
    list.goToTop();
    for (const why of Object.keys(paused)) pause(why, false);
  };
  pauseButton.addEventListener("click", toggle);
  resume.addEventListener("click", goOn);
  list.addEventListener("away", () => pause("away", true));
  list.addEventListener("back", () => pause("away", false));
  document.addEventListener("selectionchange", () => {
    const selection = getSelection();
    pause("text", !selection.isCollapsed && root.contains(selection.anchorNode));
  });

  const tell = () => {
    const meanwhile = pending.reduce((sum, item) => sum + (item.skipped || 1), pendingSkipped);
    const isSearching = !list.size && (loading !== false || older !== null);
    const why = paused.button ? "Paused" : paused.text ? "Paused while text is selected" : "Paused while you read below";
    state.textContent = failing ? "The events before could not be read. Trying again…" : isSearching ? (older ? "Searching older events…" : "Loading…") : isPaused() ? `${why}; ${number(meanwhile)} new` : `${number(list.size)} shown${older ? ", more below" : ""}`;
    pauseButton.textContent = isPaused() ? "Resume" : "Pause";
    resume.hidden = !(isPaused() && meanwhile);
    resume.textContent = `Show ${number(meanwhile)} new`;
    const filtered = asked().size > 0;
    empty.hidden = list.size > 0 || isSearching;
    root.classList.toggle("is-empty", !empty.hidden);
    empty.querySelector("[data-filtered]").hidden = !filtered;
    empty.querySelector("[data-nothing]").hidden = filtered;
  };

  list.addEventListener("drawn", () => hookline.dress(list));

  // --- the picked event, and statuses that are open still
  list.addEventListener("pick", (event) => { detail.hidden = false; root.classList.add("has-detail"); detail.show(event.detail); hookline.dress(detail); });
  const close = () => { detail.hidden = true; root.classList.remove("has-detail"); list.focus(); };
  detail.addEventListener("click", (event) => { if (event.target.closest("[data-close-detail]")) close(); });
  // The id of an erased event went with its content: it has no page.
  const visit = (item) => { if (item && !item.isErased) location.assign(item.href); };
  list.addEventListener("open", (event) => { visit(event.detail); });
  const look = async (item) => {
    const answer = await fetch(item.api, { headers: hookline.byItself }).catch(() => null);
    if (!answer?.ok) return;
    const event = parse(await answer.text());
    if (event.receivedAt === item.event.receivedAt) update(item, event); // not the first of two with one id
  };
  setInterval(() => {
    if (document.hidden) return;
    const open = new Set(list.visible.filter((item) => OPEN_STATUSES.has(item.status)).slice(0, OPEN_LOOK_EVENTS_MAX));
    if (detail.item && OPEN_STATUSES.has(detail.item.status)) open.add(detail.item);
    open.forEach(look);
  }, OPEN_LOOK_MS);

  // --- keys
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea, dialog, button, a, summary, [role=tabpanel]") && event.key !== "Escape") return;
    // There it closes what is open, or clears the field.
    if (event.key === "Escape" && (document.querySelector("dialog[open], :popover-open") || event.target.closest("input, select, textarea"))) return;
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (step) list.step(step);
    else if (event.key === "Enter") visit(list.selected);
    else if (event.key === " ") toggle();
    else if (event.key === "Escape") { close(); return; }
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  });

  back = kept();
  begin();
})();
