// What the builders are made of: buttons, fields and selects that say what they are for and tell what was chosen.
(() => {
  const { make } = hookline.elements;

  const button = (kind, word, press, more = {}) => {
    const made = make("button", { type: "button", class: kind, ...more }, word);
    made.addEventListener("click", press);
    return made;
  };
  const field = (value, label, take, more = {}) => {
    const made = make("input", { type: "text", "aria-label": label, placeholder: label.toLowerCase(), autocomplete: "off", spellcheck: "false", ...more });
    made.value = String(value ?? "");
    made.addEventListener("input", () => take(made.value));
    return made;
  };
  const area = (value, label, take, more = {}) => {
    const made = make("textarea", { rows: "2", "aria-label": label, spellcheck: "false", ...more });
    made.value = value;
    made.addEventListener("input", () => take(made.value));
    return made;
  };
  const select = (options, value, label, take, more = {}) => {
    const made = make("select", { "aria-label": label, ...more }, ...options.map(([each, word]) => make("option", { value: each, selected: each === value }, word)));
    made.addEventListener("change", () => take(made.value));
    return made;
  };
  const offers = (id, values) => make("datalist", { id }, ...values.map((value) => make("option", { value })));

  // Saves a field of an object that a builder holds as a whole, unless somebody else has changed it since it was `before`,
  // which is JSON; what else was changed meanwhile stays.
  const save = async (api, name, value, before) => {
    const body = { [name]: value };
    const found = await hookline.fields.unchanged(api, body, { [name]: hookline.fields.parse(before) });
    if (!found.headers) return { ok: false, ...found };
    const headers = { "Content-Type": "application/json", ...found.headers };
    const answer = await fetch(api, { method: "PATCH", headers, body: JSON.stringify(body) });
    return { ok: answer.ok, status: answer.status, json: hookline.fields.parse(await answer.text()) };
  };

  hookline.controls = { button, field, area, select, offers, save };
})();
