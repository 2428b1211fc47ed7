// What was done, when and with which properties, as a row of a builder: it changes a clause as the API has it.
(() => {
  const { make } = hookline.elements;
  const { field, select, offers } = hookline.controls;
  const KINDS = ["event", "page", "screen"];
  const ANY = "*"; // as the API has it
  const WHICH = { event: ["the event", "any event"], page: ["named", "any page"], screen: ["named", "any screen"] };
  const UNITS = [["s", "seconds"], ["m", "minutes"], ["h", "hours"], ["d", "days"]];
  const OF_EVENTS = ["type", "name", "source", "properties.", "context."];
  const OFTEN = [
    ["gte", "at least"], ["lte", "at most"], ["eq", "exactly"], ["range", "between"], ["never", "never"],
    ["first", "for the first time"], ["last", "for the last time"],
  ];

  const kindOf = (clause) => KINDS.find((kind) => kind in clause);
  const counted = (typed) => (/^\d+$/.test(typed) ? Number(typed) : typed);

  // A window as number and unit; one that is written otherwise stays a text.
  const windowOf = (value, take, key) => {
    const [, amount, unit] = /^\s*(\d+(?:\.\d+)?)\s*([smhd])\s*$/.exec(typeof value === "number" ? `${value}s` : value) || [];
    if (!unit) return [field(value, "Window, such as 30d", (typed) => take(typed, false), { class: "short", ...key("window") })];
    const parts = { amount, unit };
    const told = () => take(`${parts.amount}${parts.unit}`, false);
    return [make("span", { class: "together" },
      field(amount, "How long", (typed) => { parts.amount = typed; told(); }, { class: "tiny", inputmode: "decimal", ...key("window") }),
      select(UNITS, unit, "Unit", (picked) => { parts.unit = picked; told(); }, key("unit")))];
  };
  const instant = (value, label, take, key) =>
    field(value, label, take, { class: "instant", placeholder: "2026-11-01T00:00:00Z", ...key });

  // Which events: kind is chosen outside. `changed` gets whether the row has to be drawn again. Any event is a choice of
  // its own, so that an empty field never means it.
  const named = (clause, choices, changed, key) => {
    const kind = kindOf(clause);
    const isAny = clause[kind] === ANY;
    const which = select([["one", WHICH[kind][0]], ["any", WHICH[kind][1]]], isAny ? "any" : "one", `Which ${kind}`, (picked) => {
      clause[kind] = picked === "any" ? ANY : "";
      changed(true);
    }, key("which"));
    const word = { event: "Event", page: "Page", screen: "Screen" }[kind];
    return make("span", { class: "together named" }, which, isAny ? null
      : field(clause[kind], word, (typed) => { clause[kind] = typed; changed(false); },
        { class: "name", placeholder: `name of the ${kind}`, list: `names-${kind}`, ...key("name") }));
  };

  // What is still to be filled in: what to say, and the name of the control it is about; null when all is there.
  const missing = (clause, kept) => {
    const kind = kindOf(clause);
    if (kind && !clause[kind].trim()) return { message: `Name the ${kind}, or choose “${WHICH[kind][1]}”.`, control: "name" };
    const at = hookline.comparisons.unfilled(kept);
    return at < 0 ? null : { message: "Give a property and a value, or remove the comparison.", control: `where-value${at}` };
  };

  // The only one there is; of several none is guessed.
  const only = (values) => (values.length === 1 ? values[0] : undefined);

  const oftenOf = (clause) => {
    if (clause.never) return "never";
    if (clause.first) return "first";
    if (clause.last) return "last";
    const { gte, lte, eq } = clause.count || { gte: 1 };
    if (eq !== undefined) return "eq";
    return gte !== undefined && lte !== undefined ? "range" : lte !== undefined ? "lte" : "gte";
  };

  const setOften = (clause, often) => {
    const { gte, lte, eq } = clause.count || {};
    const known = eq ?? gte ?? lte ?? 1;
    for (const key of ["count", "never", "first", "last"]) delete clause[key];
    if (often === "never") clause.never = true;
    else if (often === "first" || often === "last") {
      clause[often] = { within: clause.within ?? "30d" };
      delete clause.within;
      delete clause.between;
    } else if (often === "range") clause.count = { gte: known, lte: known };
    else if (often !== "gte" || known !== 1) clause.count = { [often]: known };
  };

  const often = (clause, changed, key) => {
    const which = oftenOf(clause);
    const times = (name, label) => field((clause.count || { gte: 1 })[name], label, (typed) => {
      clause.count = { ...(clause.count || {}), [name]: counted(typed) };
      if (which === "gte" && clause.count.gte === 1) delete clause.count;
      changed(false);
    }, { class: "tiny", inputmode: "numeric", ...key(name) });
    const numbers = { gte: ["gte"], lte: ["lte"], eq: ["eq"], range: ["gte", "lte"] }[which] || [];
    const shown = numbers.map((name, at) => times(name, at ? "Times at most" : "Times"));
    return [make("span", { class: "together" },
      select(OFTEN, which, "How often", (picked) => { setOften(clause, picked); changed(true); }, key("often")),
      ...shown.flatMap((each, at) => (at ? [make("span", {}, "and"), each] : [each])),
      shown.length ? make("span", {}, "times") : null)];
  };

  // When it was done for the first or last time.
  const once = (clause, which, changed, key) => {
    const when = clause[which];
    const how = "within" in when ? "within" : "before" in when && "after" in when ? "span" : "before" in when ? "before" : "after";
    const set = (picked) => {
      clause[which] = { within: { within: "30d" }, before: { before: "" }, after: { after: "" }, span: { after: "", before: "" } }[picked];
      changed(true);
    };
    const at = (name) => instant(when[name], name === "after" ? "From" : "Before", (typed) => { when[name] = typed; changed(false); }, key(name));
    return [
      select([["within", "within the last"], ["after", "at or after"], ["before", "before"], ["span", "from … until"]], how, "When", set, key("when")),
      ...(how === "within" ? windowOf(when.within, (value) => { when.within = value; changed(false); }, key) : []),
      ...(how === "span" ? [at("after"), make("span", {}, "until"), at("before")] : how === "within" ? [] : [at(how)]),
    ];
  };

  // Since when, or between which moments, events count.
  const stretch = (clause, changed, key) => {
    const how = "between" in clause ? "between" : "within" in clause ? "within" : "ever";
    const set = (picked) => {
      delete clause.within;
      delete clause.between;
      if (picked === "within") clause.within = "30d";
      if (picked === "between") clause.between = ["", ""];
      changed(true);
    };
    const at = (index) => instant(clause.between[index], index ? "Until" : "From", (typed) => { clause.between[index] = typed; changed(false); }, key(`at${index}`));
    return [
      select([["ever", "at any time"], ["within", "within the last"], ["between", "between"]], how, "When", set, key("stretch")),
      ...(how === "within" ? windowOf(clause.within, (value) => { clause.within = value; changed(false); }, key) : []),
      ...(how === "between" ? [at(0), make("span", {}, "and"), at(1)] : []),
    ];
  };

  const pathsOf = (clause, choices) => {
    const kind = kindOf(clause);
    const known = choices[kind].find((each) => each.name === clause[kind]);
    return known ? known.paths : [];
  };

  // The comparisons of `where`, with the properties that came with the event.
  const where = (clause, kept, choices, changed, key) => {
    const list = `paths-${key("where")["data-control"]}`;
    const offered = offers(list, []);
    const refresh = () => offered.replaceChildren(...[...pathsOf(clause, choices), ...OF_EVENTS].map((value) => make("option", { value })));
    refresh();
    const rows = hookline.comparisons({
      text: clause.where ?? "",
      kept,
      label: "where",
      empty: () => ({ path: only(pathsOf(clause, choices)) ?? "", op: "=", value: "", unfilled: true }),
      first: (path, set, named) => {
        const made = field(path, "Property", (typed) => set(typed, false), { class: "path", list, ...named("path") });
        made.addEventListener("focus", refresh);
        return [made];
      },
      take: (text, redraw) => {
        if (text === null) delete clause.where;
        else clause.where = text;
        changed(redraw);
      },
      key: (name) => key(`where-${name}`),
    });
    return [offered, ...rows];
  };

  const times = (clause, changed, key) => {
    const which = oftenOf(clause);
    const parts = which === "first" || which === "last" ? once(clause, which, changed, key) : stretch(clause, changed, key);
    return make("span", { class: "together" }, ...parts);
  };

  const lists = (choices) => KINDS.map((kind) => offers(`names-${kind}`, choices[kind].map((each) => each.name)));

  hookline.eventClause = { kindOf, named, missing, only, often, times, where, lists, pathsOf };
})();
