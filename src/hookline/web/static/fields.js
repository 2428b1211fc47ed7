// A form's fields as the JSON of a request. Names are dotted paths or JSON pointers; numbers in them index lists.
hookline.fields = (() => {
  const LEFT_OUT = Symbol("left out");
  class Unusable extends Error {}

  // Numbers that JavaScript would round stay as they were written, also when they are written again.
  class Exact {
    constructor(source) { this.source = source; }
    toJSON() { return JSON.rawJSON ? JSON.rawJSON(this.source) : Number(this.source); } // not every browser has it
    toString() { return this.source; }
  }
  const parse = (text) => JSON.parse(text, (_, value, context) => {
    const source = context?.source;
    return typeof value === "number" && source && String(value) !== source ? new Exact(source) : value;
  });
  // A number of a JSON text that this browser would write otherwise than it is; undefined where there is none.
  const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
  const rounded = (text) => JSON.rawJSON ? undefined : (text.match(STRING_OR_NUMBER) || []).find((each) => each[0] !== '"' && String(Number(each)) !== each);

  const readers = {
    number: (text) => {
      const value = Number(text.replace(/[\s\u202f]/g, ""));
      if (!Number.isFinite(value)) throw new Unusable("This is not a number.");
      return value;
    },
    boolean: (text) => text === "true",
    json: (text) => {
      try { return JSON.parse(text); } catch (error) { throw new Unusable(`This is not JSON: ${error.message}.`); }
    },
    moment: (text) => { // as its reader's clock has it
      const at = new Date(text);
      if (Number.isNaN(at.getTime())) throw new Unusable("This is not a date and time.");
      return at.toISOString();
    },
    list: (text) => text.split(/[\n,]/).map((each) => each.trim()).filter(Boolean),
    pairs: (text) => Object.fromEntries(text.split("\n").filter((line) => line.trim()).map((line) => {
      const at = line.indexOf(":");
      if (at < 1) throw new Unusable("Write one header per line: “Name: value”.");
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    })),
  };

  // An empty field: a list is empty, a changed object loses the field, a new one never had it; data-empty decides else.
  const whenEmpty = (field, method) => {
    const kind = field.dataset.type;
    switch (field.dataset.empty || { list: "list", pairs: "pairs" }[kind] || (method === "PATCH" ? "null" : "omit")) {
      case "null": return null;
      case "text": return "";
      case "list": return [];
      case "pairs": return {};
      default: return LEFT_OUT;
    }
  };

  const valueOf = (field, method) => {
    if (field.type === "radio" && !field.checked) return LEFT_OUT;
    if (field.type === "checkbox" && !("type" in field.dataset)) return field.checked;
    if (field.value === "") return whenEmpty(field, method);
    const read = readers[field.dataset.type];
    return read ? read(field.value) : field.value;
  };

  const partsOf = (name) => name.startsWith("/")
    ? name.slice(1).split("/").map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    : name.split(".");

  const isList = (node) => [...node.keys()].every((key) => /^\d+$/.test(key));

  // The tree as JSON; entries of lists close up, and `places` learns at which pointer each field ended.
  const closed = (node, pointer, places) => {
    if (!(node instanceof Map)) {
      places.push([pointer, node.field]);
      return node.value;
    }
    const asList = isList(node);
    const made = asList ? [] : {};
    for (const [key, child] of asList ? [...node].sort((a, b) => a[0] - b[0]) : node) {
      const place = asList ? String(made.length) : key;
      made[place] = closed(child, `${pointer}/${place.replaceAll("~", "~0").replaceAll("/", "~1")}`, places);
    }
    return made;
  };

  const CHANGED = "Somebody else has changed this since you opened the page. Load it again, then make your change.";
  const isTree = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  const differs = (body, now, before) => isTree(body)
    ? Object.keys(body).some((key) => differs(body[key], now?.[key], before?.[key]))
    : JSON.stringify(now) !== JSON.stringify(before);

  return {
    Unusable,
    Exact,
    parse,
    rounded,
    // {headers} with which nothing that a change is about is saved over what somebody else has saved since the object was
    // as `before`; else {status, json} of why not. What else was changed meanwhile is no reason.
    async unchanged(api, body, before) {
      const given = await fetch(api, { headers: { Accept: "application/json" } });
      const now = parse(await given.text());
      if (!given.ok) return { status: given.status, json: now };
      if (differs(body, now, before)) return { status: 412, json: { detail: CHANGED } };
      const tag = given.headers.get("ETag")?.replace("W/", ""); // a front that packs answers makes it a weak one
      return { headers: tag ? { "If-Match": tag } : {} };
    },
    // {body, places}: body is undefined when no field has a name. Throws Unusable with the field it is about.
    read(form, method, button) {
      const root = new Map();
      const named = [...form.elements].filter((each) =>
        each.name && !each.disabled && !("path" in each.dataset) && (each.type !== "submit" || each === button));
      for (const field of named) {
        let value;
        try {
          value = field.type === "checkbox" && field.dataset.type === "list"
            ? named.filter((each) => each.name === field.name && each.checked).map((each) => each.value)
            : valueOf(field, method);
        } catch (error) {
          error.field = field;
          throw error;
        }
        if (value === LEFT_OUT) continue;
        const parts = partsOf(field.name);
        let node = root;
        for (const part of parts.slice(0, -1)) {
          if (!(node.get(part) instanceof Map)) node.set(part, new Map());
          node = node.get(part);
        }
        node.set(parts.at(-1), { value, field });
      }
      const places = [];
      return { body: root.size ? closed(root, "", places) : undefined, places };
    },
    // The value at a dotted path of an answer.
    at: (value, path) => path.split(".").reduce((inner, part) => inner?.[part], value),
  };
})();

// An id suggested from the name, until somebody types one: data-slug-of names the field it follows.
(() => {
  const suggest = (field) => {
    const follower = field.form?.querySelector(`[data-slug-of="${CSS.escape(field.name)}"]:not([data-typed])`);
    if (!follower) return;
    const plain = field.value.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").toLowerCase();
    follower.value = plain.replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 64);
  };
  document.addEventListener("input", ({ target }) => {
    if ("slugOf" in (target.dataset ?? {})) target.dataset.typed = "";
    else suggest(target);
  });
  for (const follower of document.querySelectorAll("[data-slug-of]")) { // a name typed before this ran
    const followed = follower.form?.elements[follower.dataset.slugOf];
    if (followed?.value && !follower.value) suggest(followed);
    else if (follower.value) follower.dataset.typed = "";
  }
})();
