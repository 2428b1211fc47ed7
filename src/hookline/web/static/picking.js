// Rows that are picked with their boxes: how many, and their ids for the dialogs that do something with them. While any
// is picked the list stays as it is. Also rows as links, and the two moments of a time range, which an address holds in
// UTC.
(() => {
  const listOf = (element) => element.closest("[data-picking]");
  const boxes = (list) => [...list.querySelectorAll("[data-pick]")];

  const tell = (list) => {
    const all = boxes(list);
    const ids = all.filter((each) => each.checked).map((each) => Number(each.value));
    const bar = list.querySelector("[data-picked]");
    bar.hidden = ids.length === 0;
    if (ids.length) list.dataset.hold = ""; else delete list.dataset.hold;
    const head = list.querySelector("[data-pick-all]");
    head.checked = ids.length > 0 && ids.length === all.length;
    head.indeterminate = ids.length > 0 && ids.length < all.length;
    for (const each of document.querySelectorAll("[data-picked-count]")) each.textContent = ids.length;
    for (const each of document.querySelectorAll("[data-picked-noun]")) each.textContent = ids.length === 1 ? each.dataset.pickedNoun : each.dataset.many;
    for (const each of document.querySelectorAll("[data-picked-ids]")) each.value = each.defaultValue = JSON.stringify(ids);
  };
  const set = (list, checked) => { for (const each of boxes(list)) each.checked = checked; tell(list); };

  document.addEventListener("change", (event) => {
    const list = listOf(event.target);
    if (!list) return;
    if ("pickAll" in event.target.dataset) set(list, event.target.checked);
    else if ("pick" in event.target.dataset) tell(list);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-pick-none]")) set(listOf(event.target), false);
  });
  document.addEventListener("answered", (event) => {
    if (!event.target.querySelector("[data-picked-ids]")) return;
    for (const list of document.querySelectorAll("[data-picking]")) set(list, false);
  });

  const local = (iso, step) => { // as datetime-local wants it
    const at = new Date(iso);
    return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, step < 1 ? 23 : 19);
  };
  hookline.onDress((scope) => {
    for (const each of scope.querySelectorAll("[data-moment]")) {
      if (each.dataset.moment) each.value = local(each.dataset.moment, Number(each.step));
      delete each.dataset.moment;
    }
  });
  document.addEventListener("submit", (event) => {
    if (!("between" in event.target.dataset)) return;
    event.preventDefault();
    const query = new URLSearchParams([...new FormData(event.target)].filter(([, value]) => value !== ""));
    for (const name of ["from", "to"]) {
      if (query.has(name)) query.set(name, new Date(query.get(name)).toISOString());
    }
    location.assign(`${event.target.action}?${query}`);
  });

  // A row's link lies over all of it, but for what says more on hover (tables.css): a press there is meant for the link, too.
  document.addEventListener("click", (event) => {
    if (event.target.closest("a, button, input, summary") || !getSelection().isCollapsed) return;
    const row = event.target.closest("main tr :is(time, [title])")?.closest("tr").querySelector(".row");
    row?.dispatchEvent(new MouseEvent("click", event)); // with its keys: Ctrl opens another tab
  });

  // A row that stands closed below another: opened by a button of that one, and again after the list was rendered anew.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-reveals]");
    if (!button) return;
    const details = document.getElementById(button.dataset.reveals);
    details.open = !details.open;
    show(details);
  });
  const show = (details) => {
    details.closest("tr").hidden = !details.open;
    const button = document.querySelector(`[data-reveals="${CSS.escape(details.id)}"]`);
    button?.setAttribute("aria-expanded", String(details.open));
  };
  hookline.onDress((scope) => { for (const each of scope.querySelectorAll("tr.below-row details")) show(each); });
})();
