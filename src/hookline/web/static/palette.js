// ⌘K or Ctrl-K: finds anything by id, name or beginning, and goes there. Nothing is done but going.
(() => {
  const DELAY_MS = 60;
  const RECENT_MAX = 6;
  const HINT = "Type the beginning of a name, e-mail or id of a person, an event name, a message id, a destination, a source, a page or an action.";
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const field = dialog.querySelector("input");
  const list = dialog.querySelector("[role=listbox]");
  const said = dialog.querySelector("[role=status]");
  let asking = null;
  let timer = 0;
  let prepared = false;
  let at = -1;

  const recent = () => {
    try {
      const kept = JSON.parse(localStorage.getItem("palette") || "[]");
      return Array.isArray(kept) ? kept.filter((each) => typeof each?.href === "string" && each.href.startsWith(hookline.root)) : [];
    } catch { return []; }
  };
  // Pages and objects alone: what people are called is not kept in the browser.
  const KEPT = new Set(["page", "action", "destination", "source", "audience", "computedTrait", "eventName", "doc", "recent"]);
  const remember = ({ kind, title, detail, href }) => {
    if (!KEPT.has(kind)) return;
    const kept = [{ title, detail, href }, ...recent().filter((each) => each.href !== href)].slice(0, RECENT_MAX);
    try { localStorage.setItem("palette", JSON.stringify(kept)); } catch { /* private mode: nothing is recent */ }
  };

  const options = () => [...list.querySelectorAll("[role=option]")];
  const select = (next) => {
    const all = options();
    at = all.length ? (next + all.length) % all.length : -1;
    all.forEach((each, index) => each.setAttribute("aria-selected", String(index === at)));
    if (at < 0) { field.removeAttribute("aria-activedescendant"); return; }
    field.setAttribute("aria-activedescendant", all[at].id);
    all[at].scrollIntoView({ block: "nearest" });
  };

  const text = (tag, className, words) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.textContent = words;
    return element;
  };

  const draw = (groups, words) => {
    list.replaceChildren();
    let number = 0;
    for (const { kind, title, items } of groups) {
      const group = text("div", "", "");
      const heading = text("p", "kind", title);
      heading.id = `palette-${kind}`;
      group.setAttribute("role", "group");
      group.setAttribute("aria-labelledby", heading.id);
      group.append(heading);
      for (const item of items) {
        const option = text("div", "option", "");
        option.id = `palette-option-${number}`;
        option.setAttribute("role", "option");
        option.setAttribute("aria-selected", "false");
        option.append(text("bdi", "", item.title));
        if (item.detail) option.append(text("bdi", "detail", item.detail));
        option.item = { kind, ...item };
        const own = number;
        option.addEventListener("pointermove", () => { if (at !== own) select(own); });
        option.addEventListener("click", (event) => go(option.item, event.ctrlKey || event.metaKey));
        group.append(option);
        number += 1;
      }
      list.append(group);
    }
    field.setAttribute("aria-expanded", String(number > 0));
    said.textContent = words;
    select(number ? 0 : -1);
  };

  const go = (item, inNew) => {
    remember(item);
    if (item.href === "#theme") {
      dialog.close();
      document.querySelector("[data-theme-switch]")?.click();
      return;
    }
    const url = new URL(item.href, location.href);
    if (inNew) { open(url, "_blank", "noopener"); return; }
    const isHere = url.pathname === location.pathname && url.search === location.search && url.hash;
    dialog.close();
    location.assign(url);
    if (isHere) window.dispatchEvent(new Event("hashchange"));
  };

  const begin = () => {
    const kept = recent();
    draw(kept.length ? [{ kind: "recent", title: "Recent", items: kept }] : [], HINT);
  };

  // What the search does not know, such as somebody's e-mail address where no people are kept, may still be in events.
  const inEvents = (wanted) => ({
    kind: "inEvents", title: "Events", items: [{ title: `Search all events for “${wanted}”`, detail: "", href: `/events?text=${encodeURIComponent(wanted)}` }],
  });

  const ask = async () => {
    asking?.abort();
    const wanted = field.value.trim();
    if (!wanted) { begin(); return; }
    const mine = asking = new AbortController();
    try {
      const answer = await fetch(`/api/v1/search?q=${encodeURIComponent(wanted)}`, { headers: { Accept: "application/json" }, signal: mine.signal });
      if (answer.status === 401) { hookline.toSignIn(); return; }
      if (!answer.ok) { draw([], answer.status === 429 ? "Too many searches at once. Wait a moment, then continue typing." : "The search failed. Type again to repeat it."); return; }
      const { groups, peopleIndexed } = await answer.json();
      if (mine !== asking || !dialog.open) return;
      for (const item of groups.flatMap((each) => each.items)) item.href = hookline.below(item.href);
      const count = groups.reduce((sum, each) => sum + each.items.length, 0);
      const building = peopleIndexed < 1 ? ` The search for people is being built (${Math.floor(peopleIndexed * 100)} %).` : "";
      const words = count ? `${count} result${count === 1 ? "" : "s"}.` : `Nothing found. ${HINT}`;
      draw(count ? groups : [inEvents(wanted)], words + building);
    } catch (error) {
      if (error.name !== "AbortError") draw([], "Hookline does not answer. Type again to repeat the search.");
    }
  };

  const show = () => {
    if (dialog.open) { dialog.close(); return; }
    if (document.querySelector("dialog[open]")) return;
    field.value = "";
    begin();
    dialog.showModal();
    field.focus();
    if (!prepared) fetch("/api/v1/search?q=").catch(() => {}); // the first search reads the documentation
    prepared = true;
  };

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, DELAY_MS);
  });
  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    switch (event.key) {
      case "ArrowDown": select(at + 1); break;
      case "ArrowUp": select(at - 1); break;
      case "PageDown": select(options().length - 1); break;
      case "PageUp": select(0); break;
      case "Enter": {
        const option = options()[at];
        if (option) go(option.item, event.ctrlKey || event.metaKey);
        break;
      }
      default: return;
    }
    event.preventDefault();
  });
  dialog.addEventListener("close", () => { asking?.abort(); asking = null; clearTimeout(timer); });
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    show();
  });
  document.addEventListener("click", (event) => { if (event.target.closest("[data-palette]")) show(); });
})();
