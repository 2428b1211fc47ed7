// What the scripts that draw events share: making elements from text (never from markup), marks, times, copying.
(() => {
  const { Exact, parse } = hookline.fields;
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      element.setAttribute(name, value === true ? "" : String(value));
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };

  // A state is colour, shape and word: the server's table, most urgent first.
  let marks = new Map();
  const useMarks = (table) => { marks = new Map(table.map((each, rank) => [each.status, { ...each, rank }])); };
  const markOf = (status) => marks.get(status) || { kind: "off", shape: "○", word: status, rank: marks.size };
  const mark = (status, said = "") => {
    const { kind, shape, word } = markOf(status);
    return make("span", { class: `mark ${kind}` }, make("span", { "aria-hidden": "true" }, shape), ` ${said || word}`);
  };

  // Words for the outcome of an attempt.
  const outcomeWord = (name) => name.replaceAll("_", " ");
  // 840 ms or 1.3 s.
  const took = (value) => (value < 1000 ? `${value} ms` : `${Number((value / 1000).toPrecision(3))} s`);

  // Whose an event is; the same addresses as web/address.py.
  const person = (userId, anonymousId) => {
    const id = userId || anonymousId;
    if (!id) return make("span", { class: "muted" }, "none");
    const asked = userId ? "userId" : "anonymousId";
    const dots = id === "." || id === ".."; // steps of an address to browsers
    const href = dots ? `/people?${asked}=${id}` : `/people/${userId ? "user" : "anonymous"}/${encodeURIComponent(id)}`;
    return make("a", { href }, make("bdi", { class: "mono" }, id));
  };

  // A source as people read it, by its name, and its page; the same as web/lists.py and marks.html.
  const SYNC_SOURCE = "profiles";
  const isSource = (id) => id !== SYNC_SOURCE;
  const sourceNames = JSON.parse(document.querySelector("[data-source-names]")?.dataset.sourceNames || "{}");
  const sourceName = (id) => (!isSource(id) ? "audiences and traits" : Object.hasOwn(sourceNames, id) ? sourceNames[id] : id);
  const sourceTitle = (id) => (isSource(id) ? id : null);
  const source = (id) => make("a", { href: isSource(id) ? `/sources/${encodeURIComponent(id)}` : "/audiences", title: sourceTitle(id) }, make("bdi", {}, sourceName(id)));

  const moment = (iso) => make("time", { datetime: iso, "data-relative": true }, iso);
  // copying.js does it, with the text as it is at the click.
  const copyable = (label, textOf) => {
    const button = make("button", { type: "button", class: "copy inline", "data-copy-text": "" }, label);
    button.addEventListener("click", () => { button.dataset.copyText = textOf(); });
    return button;
  };

  // What lists show of an event, empty where there is nothing of it: as title_in (features/events/log.py) does.
  const TRAITS_SHOWN = 3;
  const TRAIT_CHARACTERS_MAX = 40;
  const titleOf = (type, body) => {
    if (type === "identify" || type === "group") {
      const traits = body.traits && typeof body.traits === "object" ? Object.entries(body.traits) : [];
      const words = traits.slice(0, TRAITS_SHOWN).map(([name, value]) => `${name}: ${short(value)}`).join(", ");
      return words + (traits.length > TRAITS_SHOWN ? " …" : "");
    }
    if (type === "alias") return body.previousId && body.userId ? `${body.previousId} → ${body.userId}` : "";
    const properties = body.properties && typeof body.properties === "object" ? body.properties : {};
    const places = type === "page" ? [properties.path, properties.url, properties.title] : [];
    return [type === "track" ? body.event : body.name, ...places].find((each) => typeof each === "string" && each) || "";
  };
  const short = (value) => {
    const text = value instanceof Exact ? value.source : typeof value === "string" ? value : JSON.stringify(value);
    return text.length > TRAIT_CHARACTERS_MAX ? `${text.slice(0, TRAIT_CHARACTERS_MAX)}…` : text;
  };

  const number = (value) => value.toLocaleString("en").replaceAll(",", "\u202f");
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

  hookline.elements = { make, useMarks, markOf, mark, outcomeWord, took, person, isSource, sourceName, sourceTitle, source, moment, copyable, Exact, parse, number, quoted, titleOf };
})();
