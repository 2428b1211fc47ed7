// Forms that speak to the admin API: <form data-api="PATCH /api/v1/destinations/crm">. Fields become JSON (fields.js),
// problems are shown at the fields they point to; then the page looks again, goes to data-then, or shows the answer in
// the form's <template data-answer>. {name} in data-api is a field with data-path, in data-then a value of the answer.
// data-before has the object as the form shows it: what somebody else has changed since is not saved over.
// data-over names codes of problems that nobody made: what was asked for is over, such as a retry of what arrived meanwhile.
(() => {
  const filled = (template, valueOf) =>
    template.replace(/\{([^}]+)\}/g, (_, name) => encodeURIComponent(String(valueOf(name) ?? "")));

  document.addEventListener("input", (event) => {
    const form = event.target.form;
    if (form?.dataset.api) { form.dataset.dirty = ""; say(form, ""); }
  });

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.dataset.api) return;
    event.preventDefault();
    if (form.dataset.sending) return;
    form.dataset.sending = "";
    clear(form);
    try {
      await send(form, event.submitter);
    } catch (error) {
      if (error instanceof hookline.fields.Unusable) showAt(form, error.field, error.message);
      else complain(form, "Hookline did not answer. Try again in a moment.");
    } finally {
      delete form.dataset.sending;
    }
  });

  const send = async (form, button) => {
    const [method, address] = (button?.dataset.api || form.dataset.api).split(" ");
    const { body, places } = hookline.fields.read(form, method, button);
    const url = filled(address, (name) => form.elements[name]?.value);
    const headers = { Accept: "application/json" };
    if (body !== undefined || method === "POST") headers["Content-Type"] = "application/json";
    if (method === "POST") headers["Idempotency-Key"] = keyOf(form, url, body);
    if (form.dataset.match) headers["If-Match"] = form.dataset.match;
    if (form.dataset.before) {
      const found = await hookline.fields.unchanged(url, body, hookline.fields.parse(form.dataset.before));
      if (found.status === 401) { hookline.toSignIn(); return; }
      if (!found.headers) { refused(form, places, found.json); return; }
      Object.assign(headers, found.headers);
    }
    const text = body !== undefined ? JSON.stringify(body) : method === "POST" ? "{}" : undefined;
    const answer = await fetch(url, { method, headers, body: text, redirect: "error" });
    if (answer.status === 401) { hookline.toSignIn(); return; }
    const json = /json/.test(answer.headers.get("content-type") || "") ? hookline.fields.parse(await answer.text()) : null;
    if (answer.ok) done(form, json);
    else if (form.dataset.over?.split(" ").includes(json?.code)) over(form, json.detail);
    else refused(form, places, json || { detail: `Hookline answered ${answer.status}.` });
  };

  // The same request keeps its key, so that one sent twice after a lost answer is done once.
  const keyOf = (form, url, body) => {
    const request = `${url} ${JSON.stringify(body)}`;
    if (form.dataset.request !== request) {
      form.dataset.request = request;
      const random = crypto.getRandomValues(new Uint8Array(16)); // randomUUID needs TLS
      form.dataset.idempotencyKey = [...random].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    }
    return form.dataset.idempotencyKey;
  };

  const done = (form, answer) => {
    delete form.dataset.dirty;
    delete form.dataset.request;
    if (form.dataset.before) form.dataset.before = JSON.stringify(answer);
    form.dispatchEvent(new CustomEvent("answered", { bubbles: true, detail: answer }));
    const then = form.dataset.then;
    if (then) {
      if (form.dataset.done) hookline.toastNext(form.dataset.done);
      location.assign(filled(then, (name) => hookline.fields.at(answer, name)));
      return;
    }
    const template = form.querySelector("template[data-answer]");
    if (template) show(form, template, answer);
    else form.closest("dialog")?.close();
    say(form, template ? "" : form.dataset.done ?? "Saved");
    hookline.look();
  };

  const over = (form, message) => {
    delete form.dataset.request;
    form.closest("dialog")?.close();
    hookline.toast(hookline.atClock(message));
    hookline.look();
  };

  // What a template shows of a value: data-value its text, data-when only if there is something, data-each once for each.
  const shown = (template, value) => {
    const made = template.content.cloneNode(true);
    for (const inner of made.querySelectorAll("template[data-each]")) {
      const each = hookline.fields.at(value, inner.dataset.each) || [];
      inner.replaceWith(...each.map((entry) => shown(inner, entry)));
    }
    for (const place of made.querySelectorAll("[data-when]")) {
      if (!hookline.fields.at(value, place.dataset.when)) place.remove();
      else delete place.dataset.when;
    }
    for (const place of made.querySelectorAll("[data-value]")) {
      place.textContent = String(hookline.fields.at(value, place.dataset.value) ?? "none");
      delete place.dataset.value;
    }
    for (const link of made.querySelectorAll("[data-href]")) {
      link.href = filled(link.dataset.href, (name) => hookline.fields.at(value, name));
    }
    return made;
  };

  const show = (form, template, answer) => {
    const made = shown(template, answer);
    let place = form.querySelector("[data-answered]");
    if (!place) {
      place = document.createElement("div");
      place.dataset.answered = "";
      place.dataset.hold = "";
      template.before(place);
    }
    place.replaceChildren(made);
    const leave = form.querySelector("[data-close]");
    if (leave) leave.textContent = "Close"; // it is done, and cannot be cancelled
    place.tabIndex = -1;
    place.focus();
  };

  // --- what was wrong
  const refused = (form, places, problem) => {
    const left = [];
    for (const error of problem.errors || []) {
      const field = fieldAt(form, places, error.pointer);
      if (field) showAt(form, field, error.detail, error.pointer);
      else left.push(error.pointer ? `${error.pointer}: ${error.detail}` : error.detail);
    }
    if (!problem.errors?.length || left.length) complain(form, [problem.detail, ...left.slice(1)].join(" "));
  };

  // The field at the pointer, else the one that holds it or lies within it.
  const fieldAt = (form, places, pointer) => {
    const exact = places.find(([place]) => place === pointer);
    if (exact) return exact[1];
    const around = places.find(([place]) => place && pointer.startsWith(`${place}/`));
    const within = pointer ? places.find(([place]) => place.startsWith(`${pointer}/`)) : null;
    return (around || within)?.[1] || [...form.elements].find((each) => pointer && `/${each.name}` === pointer) || null;
  };

  const showAt = (form, field, message, pointer = "") => {
    // A builder shows it itself, at the part that the pointer names.
    const told = new CustomEvent("refused", { bubbles: true, cancelable: true, detail: { message, pointer } });
    for (let around = field.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
    if (!field.dispatchEvent(told)) return;
    const place = field.closest(".field")?.querySelector("[data-error]");
    if (!place) { complain(form, message); return; }
    place.textContent = `■ ${message}`;
    field.setAttribute("aria-invalid", "true");
    if (!form.querySelector("[aria-invalid=true]:focus")) field.focus();
  };

  const complain = (form, message) => {
    const place = form.querySelector("[data-problem]");
    if (place) place.textContent = message && `■ ${message}`;
    else if (message) hookline.toast(`■ ${message}`);
  };

  const say = (form, message) => {
    const place = form.querySelector("[data-said]");
    if (!place) hookline.toast(message, form.dataset.offer);
    else if (place.textContent !== message) place.textContent = message;
  };

  const clear = (form) => {
    complain(form, "");
    for (const place of form.querySelectorAll("[data-error], [data-problem]")) place.textContent = "";
    for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  };

  // --- entries of a list one after the other: data-more shows the next hidden one, data-less empties and hides its own
  document.addEventListener("click", (event) => {
    const more = event.target.closest("[data-more]");
    if (more) {
      const next = more.closest("form").querySelector("[data-entry][hidden]");
      if (next) { next.hidden = false; next.querySelector("input, textarea")?.focus(); }
    }
    const less = event.target.closest("[data-less]");
    if (less) {
      const entry = less.closest("[data-entry]");
      for (const field of entry.querySelectorAll("input, textarea")) field.value = "";
      entry.hidden = true;
      less.form.dataset.dirty = "";
    }
    const form = (more || less)?.closest("form");
    for (const button of form?.querySelectorAll("[data-more]") || []) {
      button.hidden = !form.querySelector("[data-entry][hidden]");
    }
  });
})();
