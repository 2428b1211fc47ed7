// The comparisons of an expression in a row of a builder: field, comparison and value, joined by and, or by or. What
// is more than that (conditions.js) is a text.
(() => {
  const { make } = hookline.elements;
  const { button, field, area, select } = hookline.controls;
  const { parse, write, valueOf, ops } = hookline.conditions;
  const WORDS = {
    "=": "is", "!=": "is not", ">": "is more than", ">=": "is at least", "<": "is less than", "<=": "is at most",
    contains: "contains", match: "matches",
  };
  const OPS = ops.map((op) => [op, WORDS[op]]);

  // `text` is the expression; `first` draws what stands before the comparison (path, setPath, key) -> elements; `take`
  // gets each new text, null for none, and whether the row has to be drawn again; `key` makes the names of controls.
  // `kept` is an object of the row's own: what is half typed may be no expression, and is still a comparison. Where it
  // `isNeeded` the last one stays.
  hookline.comparisons = ({ text, kept, label, isNeeded = false, empty, first, take, key }) => {
    if (kept.text !== text) Object.assign(kept, { text, simple: text === "" ? { join: "and", clauses: [] } : parse(text) });
    const { simple } = kept;
    if (!simple || (!simple.clauses.length && text !== "")) {
      const typed = area(text, label || "Expression", (words) => take(words || null, false), key("text"));
      return [make("div", { class: "comparison" }, make("span", { class: "muted" }, label), typed)];
    }
    const taken = (redraw) => {
      kept.text = simple.clauses.length ? write(simple) : "";
      take(kept.text || null, redraw);
    };
    const rows = simple.clauses.map((clause, at) => make("div", { class: "comparison" },
      at ? select([["and", "and"], ["or", "or"]], simple.join, "Join", (join) => { simple.join = join; taken(true); }, key(`join${at}`))
        : make("span", { class: "muted" }, label),
      ...first(clause.path, (path, redraw) => { clause.path = path; taken(redraw); }, (name) => key(`${name}${at}`)),
      select(OPS, clause.op, "Comparison", (op) => { clause.op = op; taken(false); }, key(`op${at}`)),
      field(clause.value, "Value", (typed) => {
        clause.value = valueOf(typed);
        if ("unfilled" in clause) clause.unfilled = typed === "";
        taken(false);
      }, key(`value${at}`)),
      isNeeded && simple.clauses.length === 1 ? null
        : button("quiet", "×", () => { simple.clauses.splice(at, 1); taken(true); }, { "aria-label": "Remove this comparison", ...key(`less${at}`) })));
    const more = button("quiet more", rows.length ? "and …" : `${label} …`, () => { simple.clauses.push(empty()); taken(true); }, key("more"));
    if (rows.length) rows.at(-1).append(more);
    return rows.length ? rows : [more];
  };
  // Which comparison still waits for a field or a value, -1 for none: one that was saved with an empty text waits not.
  hookline.comparisons.unfilled = (kept) => (kept?.simple?.clauses || []).findIndex(({ path, unfilled }) => unfilled || !path || path.endsWith("."));
})();
