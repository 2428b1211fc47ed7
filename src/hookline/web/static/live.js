// Keeps the page as it is now: the event stream says when to look, the server renders what changed.
(() => {
  const main = document.querySelector("main[data-live]");
  if (!main) return;
  const LOOK_MS_MIN = Number(main.dataset.live) || 400; // a page that costs more to make sets a slower pace
  const LOOK_MS_IDLE = Math.max(1200, LOOK_MS_MIN);
  const RECONNECT_MS = 2000;
  const PRESS_MS_MAX = 60_000;
  const shown = new Map();
  let lastLook = 0;
  let timer = 0;
  let looking = false;
  let again = false;

  // --- connection light
  const light = document.getElementById("light");
  const say = (state, word) => {
    light.dataset.state = state;
    const text = light.querySelector("[data-word]");
    if (text.textContent !== word) text.textContent = word;
  };

  // --- parts
  const partsOf = (scope) => [...scope.querySelectorAll("[data-part]")];
  const partNamed = (name) => document.querySelector(`[data-part="${CSS.escape(name)}"]`);
  for (const part of partsOf(document)) shown.set(part.dataset.part, part.innerHTML);

  const look = async () => {
    if (looking) { again = true; return; }
    looking = true;
    lastLook = Date.now();
    try {
      const headers = { Accept: "text/html", ...hookline.byItself };
      const answer = await fetch(location.pathname + location.search, { headers, redirect: "error" });
      if (answer.status === 401) { hookline.toSignIn(); return; }
      if (answer.status === 200) put(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      say("warn", "reconnecting");
    } finally {
      looking = false;
      if (again) { again = false; soon(); }
    }
  };

  const soon = () => {
    if (timer) return;
    timer = setTimeout(() => { timer = 0; look(); }, Math.max(0, lastLook + LOOK_MS_MIN - Date.now()));
  };
  hookline.look = () => { lastLook = 0; soon(); };

  const put = (fresh) => {
    if (isPressed()) { soon(); return; }
    if (partNamed("unknown")) { location.reload(); return; } // what was looked for is there now
    const stage = (scope) => scope.querySelector("[data-stage]")?.dataset.stage;
    if (stage(document) !== stage(fresh)) { location.reload(); return; } // another step has its own page
    let changed = false;
    for (const part of partsOf(fresh)) {
      const name = part.dataset.part;
      const html = part.innerHTML;
      if (part.ownerDocument === document) { shown.set(name, html); continue; } // it came with the part around it
      if (shown.get(name) === html) continue;
      const old = partNamed(name);
      if (old && isHeld(old)) continue;
      shown.set(name, html);
      changed = true;
      if (old) replace(old, part);
      else main.append(document.adoptNode(part));
    }
    if (changed) hookline.dress(document);
  };

  // Between the press and its end everything stays: a link that is replaced, or moved by what is new above it, would
  // never be followed. Not for ever: after a link was dragged, some browsers take it for pressed until the next press.
  let pressedAt = 0;
  for (const begin of ["pointerdown", "keydown"]) addEventListener(begin, () => { pressedAt = Date.now(); }, true);
  const isPressed = () => main.matches(":active") && Date.now() - pressedAt < PRESS_MS_MAX;

  // Somebody is typing here, or is being asked: what is new can wait.
  const isHeld = (part) => part.querySelector("form[data-dirty], dialog[open], [data-hold]") !== null;

  const replace = (old, fresh) => {
    const known = new Set([...old.querySelectorAll("[data-key]")].map((row) => row.dataset.key));
    const open = new Map([...old.querySelectorAll("details[id]")].map((each) => [each.id, each.open]));
    const picked = [...old.querySelectorAll("[data-tabs]")].map((tabs) => tabs.dataset.picked);
    const focused = pathTo(old, document.activeElement);
    const scrolled = [...old.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    const said = [...old.querySelectorAll("[data-said]")].map((each) => each.textContent);
    old.replaceChildren(...document.adoptNode(fresh).childNodes);
    for (const row of old.querySelectorAll("[data-key]")) {
      if (!known.has(row.dataset.key)) row.classList.add("arrived");
    }
    for (const each of old.querySelectorAll("details[id]")) {
      if (open.has(each.id)) each.open = open.get(each.id);
    }
    old.querySelectorAll("[data-tabs]").forEach((tabs, i) => { if (picked[i]) tabs.dataset.picked = picked[i]; });
    old.querySelectorAll(".scroll").forEach((each, i) => { each.scrollLeft = scrolled[i] || 0; });
    old.querySelectorAll("[data-said]").forEach((each, i) => { if (said[i]) each.textContent = said[i]; });
    if (focused) old.querySelector(focused)?.focus({ preventScroll: true });
  };

  // What had the focus, as a selector that finds it in the new rendering.
  const pathTo = (part, element) => {
    if (!element || !part.contains(element)) return null;
    const having = (name, value) => `[${name}="${CSS.escape(value)}"]`;
    if (element.id) return `#${CSS.escape(element.id)}`;
    const row = element.closest("[data-key]")?.dataset.key;
    const around = row ? `${having("data-key", row)} ` : "";
    const name = ["data-copy", "data-dialog", "href", "name"].find((each) => element.hasAttribute(each));
    if (name) return around + having(name, element.getAttribute(name));
    const form = element.closest("form[data-api]");
    if (form) return `${around}${having("data-api", form.dataset.api)} button`;
    if (element.matches("details[id] > summary")) return `#${CSS.escape(element.parentElement.id)} > summary`;
    return row ? `${around}a` : null;
  };

  // --- the stream
  const connect = () => {
    const stream = new EventSource("/api/v1/events/stream");
    stream.onopen = () => { say("good", "live"); soon(); };
    for (const kind of ["event", "status", "skipped"]) stream.addEventListener(kind, soon);
    stream.onerror = () => {
      say("warn", "reconnecting");
      if (stream.readyState === EventSource.CLOSED) {
        stream.close();
        soon(); // finds out whether the session ended
        setTimeout(connect, RECONNECT_MS);
      }
    };
  };
  setInterval(() => { if (!document.hidden && Date.now() - lastLook > LOOK_MS_IDLE) soon(); }, 600);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(); });
  connect();
})();
