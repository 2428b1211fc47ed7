// Conditions of filters, both ways: the text of the expression language, and the simple clauses that a builder shows.
//
// parse gives {join: "and" | "or", clauses: [{path, op, value}]}, or null for what is more than that (parentheses,
// not, functions) and for numbers that JavaScript would write otherwise: such a condition is edited as text. The server
// checks every text; this only reads the simple ones.
hookline.conditions = (() => {
  const TOKEN = /\s*(?:("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w$])|((?:[\p{L}_$]|\\.)(?:[\p{L}\p{N}_$-]|\\.)*(?:\.(?:[\p{L}\p{N}_$-]|\\.)+)*)|(!=|>=|<=|[=><!(),]))/uy;
  const COMPARED = new Set(["=", "!=", ">", ">=", "<", "<="]);
  const CALLED = new Set(["contains", "match"]);
  const WORDS = new Set(["and", "or", "not"]);
  const CONSTANTS = new Map([["true", true], ["false", false], ["null", null]]);

  const tokens = (text) => {
    const found = [];
    TOKEN.lastIndex = 0;
    while (text.slice(TOKEN.lastIndex).trim()) {
      const at = TOKEN.exec(text);
      if (!at) return null;
      const [, quoted, number, name, sign] = at;
      if (quoted !== undefined) {
        const value = unquoted(quoted);
        if (value === null) return null;
        found.push({ kind: "value", value });
      } else if (number !== undefined) {
        if (String(Number(number)) !== number) return null;
        found.push({ kind: "value", value: Number(number) });
      } else found.push(sign !== undefined ? { kind: "sign", sign } : { kind: "name", name });
    }
    return found;
  };

  const unquoted = (written) => {
    const inner = written.slice(1, -1);
    const doubled = written[0] === "'" ? inner.replace(/\\'/g, "'").replace(/(?<!\\)"/g, '\\"') : inner;
    try { return JSON.parse(`"${doubled}"`); } catch { return null; }
  };

  const parse = (text) => {
    const all = tokens(text);
    if (!all || !all.length) return null;
    if (all.length === 1 && all[0].name === "true") return { join: "and", clauses: [] };
    const clauses = [];
    let join = null;
    let at = 0;
    for (;;) {
      const read = clauseAt(all, at);
      if (!read) return null;
      clauses.push(read.clause);
      at = read.next;
      if (at === all.length) return { join: join || "and", clauses };
      const word = all[at].name;
      if ((word !== "and" && word !== "or") || (join && join !== word)) return null;
      join = word;
      at += 1;
    }
  };

  const clauseAt = (all, at) => {
    const [first, second, third] = all.slice(at, at + 3);
    if (first?.kind !== "name" || WORDS.has(first.name)) return null;
    const called = first.name;
    if (CALLED.has(called) && second?.sign === "(") {
      const [path, comma, value, close] = all.slice(at + 2, at + 6);
      if (path?.kind !== "name" || comma?.sign !== "," || typeof value?.value !== "string" || close?.sign !== ")") return null;
      return { clause: { path: path.name, op: called, value: value.value }, next: at + 6 };
    }
    if (!COMPARED.has(second?.sign)) return null;
    const value = third?.kind === "value" ? third.value : CONSTANTS.get(third?.name);
    if (value === undefined) return null;
    return { clause: { path: first.name, op: second.sign, value }, next: at + 3 };
  };

  const write = ({ join, clauses }) => (clauses.length ? clauses.map(writeClause).join(` ${join} `) : "true");
  const writeClause = ({ path, op, value }) => {
    if (CALLED.has(op)) return `${op}(${path}, ${JSON.stringify(String(value))})`; // which take nothing but texts
    return `${path} ${op} ${typeof value === "string" ? JSON.stringify(value) : String(value)}`;
  };

  // What a person typed as a value: numbers, true, false and null as such, everything else as a text.
  const valueOf = (typed) => {
    if (CONSTANTS.has(typed)) return CONSTANTS.get(typed);
    return /^-?\d+(\.\d+)?$/.test(typed) && String(Number(typed)) === typed ? Number(typed) : typed;
  };

  return { parse, write, valueOf, ops: ["=", "!=", ">", ">=", "<", "<=", "contains", "match"] };
})();
