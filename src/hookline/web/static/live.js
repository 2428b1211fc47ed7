// Keeps the page as it is now: the event stream says when to look, the server renders what changed.
(() => {
  const main = document.querySelector("main[data-live]");
  if (!main) return;
  const PARTS_URL = main.dataset.live;
  const LOOK_MS_MIN = 400;
  const LOOK_MS_IDLE = 1200;
  const RECONNECT_MS = 2000;
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
  for (const part of partsOf(main)) shown.set(part.dataset.part, part.innerHTML);

  const look = async () => {
    if (looking) { again = true; return; }
    looking = true;
    lastLook = Date.now();
    try {
      const answer = await fetch(PARTS_URL, { headers: { Accept: "text/html" }, redirect: "error" });
      if (answer.status === 401) { location.assign("/login"); return; }
      if (answer.ok) put(new DOMParser().parseFromString(await answer.text(), "text/html"));
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

  const put = (fresh) => {
    for (const part of partsOf(fresh)) {
      const name = part.dataset.part;
      const html = part.innerHTML;
      if (shown.get(name) === html) continue;
      shown.set(name, html);
      const old = main.querySelector(`[data-part="${CSS.escape(name)}"]`);
      if (old) replace(old, part);
      else main.append(document.adoptNode(part));
    }
    dress(main);
  };

  const replace = (old, fresh) => {
    const known = new Set([...old.querySelectorAll("[data-key]")].map((row) => row.dataset.key));
    const open = new Map([...old.querySelectorAll("details[id]")].map((each) => [each.id, each.open]));
    const picked = [...old.querySelectorAll("[data-tabs]")].map((tabs) => tabs.dataset.picked);
    const focused = pathTo(old, document.activeElement);
    const scrolled = [...old.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    old.replaceChildren(...document.adoptNode(fresh).childNodes);
    for (const row of old.querySelectorAll("[data-key]")) {
      if (!known.has(row.dataset.key)) row.classList.add("arrived");
    }
    for (const each of old.querySelectorAll("details[id]")) {
      if (open.has(each.id)) each.open = open.get(each.id);
    }
    old.querySelectorAll("[data-tabs]").forEach((tabs, i) => { if (picked[i]) tabs.dataset.picked = picked[i]; });
    old.querySelectorAll(".scroll").forEach((each, i) => { each.scrollLeft = scrolled[i] || 0; });
    dress(old);
    if (focused) old.querySelector(focused)?.focus({ preventScroll: true });
  };

  // What had the focus, as a selector that finds it in the new rendering.
  const pathTo = (part, element) => {
    if (!element || !part.contains(element)) return null;
    if (element.dataset.copy) return `[data-copy="${CSS.escape(element.dataset.copy)}"]`;
    if (element.id) return `#${CSS.escape(element.id)}`;
    const row = element.closest("[data-key]");
    if (row) return `[data-key="${CSS.escape(row.dataset.key)}"] a`;
    return null;
  };

  // --- what scripts add to the rendering
  const dress = (scope) => {
    for (const tabs of scope.querySelectorAll("[data-tabs]")) dressTabs(tabs);
    tick();
  };

  const dressTabs = (tabs) => {
    if (tabs.querySelector("[role=tablist]")) return;
    const panels = [...tabs.querySelectorAll("[data-tab]")];
    const list = document.createElement("div");
    list.setAttribute("role", "tablist");
    const pick = (index, focus) => {
      tabs.dataset.picked = String(index);
      panels.forEach((panel, i) => { panel.hidden = i !== index; });
      [...list.children].forEach((button, i) => {
        button.setAttribute("aria-selected", String(i === index));
        button.tabIndex = i === index ? 0 : -1;
        if (i === index && focus) button.focus();
      });
    };
    panels.forEach((panel, index) => {
      panel.setAttribute("role", "tabpanel");
      const button = document.createElement("button");
      button.type = "button";
      button.id = `${panel.id}-button`;
      button.setAttribute("role", "tab");
      button.setAttribute("aria-controls", panel.id);
      button.textContent = panel.dataset.tab;
      button.addEventListener("click", () => pick(index));
      panel.setAttribute("aria-labelledby", button.id);
      list.append(button);
    });
    list.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) pick((Number(tabs.dataset.picked) + step + panels.length) % panels.length, true);
    });
    tabs.prepend(list);
    tabs.classList.add("dressed");
    pick(Number(tabs.dataset.picked || 0));
  };

  // --- time
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
  const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const ago = (seconds) => {
    for (const [unit, size] of UNITS) {
      if (Math.abs(seconds) >= size || unit === "second") return relative.format(Math.trunc(seconds / size), unit);
    }
    return "";
  };
  const lasting = (seconds) => {
    const parts = [];
    for (const [unit, size] of UNITS) {
      const count = Math.floor(seconds / size);
      seconds -= count * size;
      if (count && parts.length < 2) parts.push(`${count} ${unit[0]}`);
    }
    return parts.join(" ") || "0 s";
  };
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const tick = () => {
    for (const time of document.querySelectorAll("time[data-relative], time[data-duration]")) {
      const at = Date.parse(time.dateTime);
      if (Number.isNaN(at)) continue;
      const seconds = (at - Date.now()) / 1000;
      const text = "relative" in time.dataset ? ago(seconds) : lasting(Math.max(0, -seconds));
      if (time.textContent !== text) time.textContent = text;
      if (!time.title) time.title = exact.format(at);
    }
  };
  setInterval(tick, 1000);

  // --- copying
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    if (!source) return;
    const done = await copied(source);
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });
  const copied = async (source) => {
    try {
      await navigator.clipboard.writeText(source.textContent);
      return true;
    } catch { // without TLS there is no clipboard: leave the text selected
      const range = document.createRange();
      range.selectNodeContents(source);
      const selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      try { return document.execCommand("copy"); } catch { return false; }
    }
  };

  // --- the stream
  const connect = () => {
    const stream = new EventSource("/api/v1/events/stream");
    stream.onopen = () => { say("good", "live"); soon(); };
    for (const kind of ["event", "fate", "skipped"]) stream.addEventListener(kind, soon);
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
  dress(main);
  connect();
})();
