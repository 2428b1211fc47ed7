// The event tester: an event picked or written, the exact request before it is sent, the answer with its timings.
(() => {
  const root = document.querySelector("[data-tester]");
  if (!root) return;
  const { make, titleOf } = hookline.elements;
  const { request, answer, unsent, impossible } = hookline.asSent;
  const WAIT_MS = 400;
  const REASONS = JSON.parse(root.dataset.reasons);

  const form = root.querySelector("form");
  const pick = root.querySelector("select");
  const text = root.querySelector("textarea");
  const problem = root.querySelector("[data-error]");
  const warning = root.querySelector("[data-warning]");
  const requests = root.querySelector("[data-requests]");
  const routing = root.querySelector("[data-routing]");
  const samples = JSON.parse(root.dataset.samples);
  const recent = new Map();
  let source = root.dataset.source || null;
  let timer = 0;
  let turn = 0;
  let sending = false; // for real: its answer is shown, whatever is typed meanwhile
  let late = false; // something was changed while a test was under way

  // The event as it was typed: parsing it would round numbers.
  const bodyOf = (dryRun) => {
    try { JSON.parse(text.value); } catch (error) { throw new Error(`This is not JSON: ${error.message}.`); }
    return `{"event":${text.value},"dryRun":${dryRun}${source ? `,"source":${JSON.stringify(source)}` : ""}}`;
  };
  const ask = async (dryRun) => {
    const body = bodyOf(dryRun);
    const response = await fetch(root.dataset.api, {
      method: "POST", headers: { "Content-Type": "application/json" }, body,
    }).catch(() => null);
    const json = await response?.json().catch(() => null);
    if (!response?.ok) throw new Error(json?.detail || "Hookline did not answer. Try again in a moment.");
    return json;
  };

  // What a receiver does with a delete message is not undone by anybody.
  const warn = (report) => {
    const isDelete = report.type === "delete" && report.requests.length > 0;
    warning.textContent = isDelete ? `▲ A receiver acts on a delete message: it deletes the user “${JSON.parse(text.value).userId}” there. Hookline itself deletes nothing.` : "";
    form.querySelector("button").textContent = isDelete ? "Send delete message" : "Send test";
  };

  const show = (report) => {
    const isDelete = report.type === "delete";
    const { stoppedBy, editedBy } = report.routing;
    warn(report);
    routing.replaceChildren(unsent(report, REASONS)
      || make("p", { class: "muted" }, ["Hookline would send an event like this.", ...editedBy.map((each) => `${each}.`)].join(" ")));
    requests.replaceChildren(
      ...impossible(report),
      ...report.requests.flatMap((each, index) => [
        make("h3", { class: "mono" }, make("bdi", {}, each.name ? `${each.name}: ${each.url}` : each.url)), request(each),
        ...(report.answers ? [make("h3", {}, "The answer"), answer(report.answers[index])] : []),
      ]),
      ...(report.requests.length || report.problems.length || (isDelete && stoppedBy) ? [] : [make("p", { class: "muted" }, "The mapping makes no request for this event, so nothing is sent.")]));
  };

  const run = async (work) => {
    const mine = ++turn;
    try {
      const report = await work();
      if (mine !== turn) return;
      problem.textContent = "";
      show(report);
    } catch (error) {
      if (mine === turn) problem.textContent = `■ ${error.message}`;
    }
  };

  const write = (wait) => {
    clearTimeout(timer);
    late = sending;
    if (!sending) timer = setTimeout(() => run(() => ask(true)), wait);
  };
  // The answer stays until the next change; only the button says what it would do now.
  const catchUp = async () => {
    late = false;
    const mine = ++turn;
    try {
      const report = await ask(true);
      if (mine === turn) warn(report);
    } catch { /* the next change says what is wrong */ }
  };
  const begin = (value) => {
    const [kind, id] = [value.slice(0, value.indexOf(":")), value.slice(value.indexOf(":") + 1)];
    if (kind === "event") {
      const found = recent.get(id);
      source = found.source;
      text.value = JSON.stringify(found.event, null, 2);
      write(0);
      return;
    }
    source = null;
    text.value = JSON.stringify(samples[id], null, 2);
    write(0);
  };

  const offer = async () => {
    const group = root.querySelector("[data-recent-events]");
    for (const url of root.dataset.recent.split(" ").filter(Boolean)) {
      const response = await fetch(url).catch(() => null);
      if (!response?.ok) continue;
      for (const each of (await response.json()).items) {
        if (!each.event || typeof each.event !== "object" || each.rejection) continue;
        recent.set(each.messageId, each);
        const name = titleOf(each.type, each.event) || each.messageId;
        group.append(make("option", { value: `event:${each.messageId}` }, `${each.type} ${name.slice(0, 60)}`));
      }
    }
    group.hidden = !recent.size;
    const wanted = root.dataset.messageId;
    if (wanted && !recent.has(wanted)) await find(wanted, group);
    if (wanted && recent.has(wanted)) pick.value = `event:${wanted}`;
  };
  const find = async (id, group) => {
    const at = source ? `?source=${encodeURIComponent(source)}` : "";
    const response = await fetch(`/api/v1/events/${encodeURIComponent(id)}${at}`).catch(() => null);
    if (!response?.ok) return;
    const found = await response.json();
    recent.set(id, found);
    group.hidden = false;
    group.append(make("option", { value: `event:${id}` }, id));
  };

  pick.addEventListener("change", () => begin(pick.value));
  text.addEventListener("input", () => write(WAIT_MS));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clearTimeout(timer);
    const button = form.querySelector("button");
    button.disabled = sending = true;
    try { await run(() => ask(false)); } finally { button.disabled = sending = false; }
    if (late) catchUp();
  });
  if (root.dataset.messageId) offer().then(() => begin(pick.value));
  else { begin(pick.value); offer(); }
})();
