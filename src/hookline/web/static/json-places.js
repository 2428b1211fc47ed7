// Where something stands in a JSON text: the line of what a JSON pointer leads to, so that an error can be shown there.
(() => {
  const SPACE = /[\s,:]/;

  // Walks the text once; returns the offset of the value at the pointer, or of the nearest one that holds it.
  const offsetOf = (text, pointer) => {
    const wanted = pointer.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
    let at = 0;
    const skip = () => { while (at < text.length && SPACE.test(text[at])) at += 1; };
    const string = () => {
      const begin = at;
      for (at += 1; at < text.length && text[at] !== '"'; at += 1) if (text[at] === "\\") at += 1;
      at += 1;
      try { return JSON.parse(text.slice(begin, at)); } catch { return ""; }
    };
    let best = 0;
    const value = (depth, met) => { // met: how many parts of the pointer lead here, -1 for another way
      skip();
      if (met === depth) best = at;
      if (text[at] === "{" || text[at] === "[") {
        const isList = text[at] === "[";
        const end = isList ? "]" : "}";
        at += 1;
        for (let index = 0; ; index += 1) {
          skip();
          if (at >= text.length || text[at] === end) { at += 1; return; }
          const begin = at;
          const key = isList ? String(index) : string();
          const leads = met === depth && wanted[depth] === key;
          if (leads) best = begin;
          value(depth + 1, leads ? depth + 1 : -1);
        }
      }
      if (text[at] === '"') { string(); return; }
      const begin = at;
      while (at < text.length && !/[\s,\]}]/.test(text[at])) at += 1;
      if (at === begin) at += 1; // whatever it is, it does not stop the walk
    };
    value(0, 0);
    return best;
  };

  const lineOf = (text, pointer) => text.slice(0, offsetOf(text, pointer)).split("\n").length;

  // The offset at which a text stops being JSON: browsers do not tell it of short texts.
  const WORD = /[ \t\n\r]*("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[{}[\],:]|$)/y;
  const faultAt = (text) => {
    const open = []; // of each object or list: its end, and what may come next there
    let wants = "value";
    for (let at = 0; ;) {
      WORD.lastIndex = at;
      const found = WORD.exec(text);
      const word = found?.[1];
      const begin = found ? WORD.lastIndex - word.length : at + /^\s*/.exec(text.slice(at))[0].length;
      const ends = word === open.at(-1) && (wants === "next" || wants === "first" || wants === "first key");
      const isValue = word !== undefined && word !== "" && !/^[}\],:]$/.test(word);
      if (word === "" || word === undefined) return begin;
      if (ends) { open.pop(); wants = open.length ? "next" : "end"; }
      else if (wants === "next" && word === ",") wants = open.at(-1) === "}" ? "key" : "value";
      else if (wants === "colon" && word === ":") wants = "value";
      else if ((wants === "key" || wants === "first key") && word[0] === '"') wants = "colon";
      else if ((wants === "value" || wants === "first") && isValue) {
        if (word === "{") { open.push("}"); wants = "first key"; }
        else if (word === "[") { open.push("]"); wants = "first"; }
        else wants = open.length ? "next" : "end";
      } else return begin;
      at = WORD.lastIndex;
    }
  };

  // The parsed text with its numbers as they are, or an error that says the line.
  const parse = (text) => {
    const rounded = hookline.fields.rounded(text);
    if (rounded) throw new Error(`Line ${text.slice(0, text.indexOf(rounded)).split("\n").length}: this browser would save the number ${rounded} as ${Number(rounded)}. Use a newer one.`);
    try { return hookline.elements.parse(text); } catch {
      const at = Math.min(faultAt(text), text.length);
      const seen = text.slice(at, at + 12).split("\n")[0];
      throw new Error(`Line ${text.slice(0, at).split("\n").length}: this is not JSON${seen ? `, from “${seen}” on` : "; it ends too early"}.`);
    }
  };

  hookline.jsonPlaces = { lineOf, parse };
})();
