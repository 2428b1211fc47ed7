// The form of a replay: it is counted first; the answer shows how many events, a few of them and how long. Then a
// question says how many go to whom, and only its button sends.
(() => {
  const { make, moment, number } = hookline.elements;
  const LOOK_MS = 500;

  const counted = async (form, answer) => {
    const place = form.querySelector("[data-counted]");
    place.hidden = false;
    place.dataset.hold = "";
    const asked = { ...answer.request };
    delete asked.dryRun;
    const mine = (form.counting = answer.id);
    while (answer.state === "counting") {
      const share = answer.toCount ? ` ${number(answer.counted || 0)} of ${number(answer.toCount)} counted` : "";
      place.replaceChildren(make("p", { role: "status", class: "muted" }, `Counting…${share}`));
      await new Promise((done) => { setTimeout(done, LOOK_MS); });
      if (form.counting !== mine) return;
      const next = await fetch(`/api/v1/replays/${encodeURIComponent(answer.id)}`, { headers: hookline.byItself }).catch(() => null);
      if (next?.ok) answer = await next.json();
      else if (next) { place.replaceChildren(make("p", { class: "error" }, "■ The count was lost. Count again.")); return; }
    }
    place.replaceChildren(...(answer.total === null ? [make("p", { class: "error" }, `■ ${answer.reason}`)] : result(answer, asked)));
    hookline.dress(place);
  };

  const result = (answer, asked) => {
    if (!answer.total) return [make("p", { role: "status" }, "No event matches. Nothing would be sent.")];
    const rows = answer.sample.map((each) => make("tr", {},
      make("td", {}, make("a", { href: `/events/${encodeURIComponent(each.messageId)}?source=${encodeURIComponent(each.source)}` },
        make("span", { class: "type" }, each.type), " ", make("bdi", {}, each.event || each.messageId))),
      make("td", {}, make("a", { href: `/people?id=${encodeURIComponent(each.userId)}` }, make("bdi", { class: "mono" }, each.userId))), make("td", { class: "right" }, moment(each.receivedAt))));
    const start = make("button", { type: "button", class: "primary" }, `Send ${events(answer.total)} …`);
    start.addEventListener("click", () => confirm(answer, asked));
    return [
      make("p", { role: "status" }, make("strong", {}, events(answer.total)), ` would be sent again, in about ${lasting(answer.etaSeconds)}.`),
      make("div", { class: "scroll" }, make("table", { "aria-label": "Sample events" }, make("tbody", {}, ...rows))),
      make("p", { class: "buttons" }, start, make("span", { class: "hint" }, "Nothing is sent before you confirm.")),
    ];
  };

  // What is asked for beside the destination, and how fast.
  const LIMITS = ["from", "to", "source", "type", "event", "userId", "messageIds", "deadLetteredSince", "deadLetters"];
  const events = (count) => `${number(count)} ${count === 1 ? "event" : "events"}`;

  const confirm = (answer, asked) => {
    const dialog = document.getElementById("confirm-replay");
    const problem = dialog.querySelector("[data-problem]");
    const isAll = !LIMITS.some((name) => asked[name] !== undefined && asked[name] !== null);
    dialog.querySelector("h2").textContent = `Send ${events(answer.total)}`;
    dialog.querySelector("[data-says]").replaceChildren(
      make("p", {}, `This sends ${events(answer.total)} to `, make("bdi", {}, dialog.dataset.name), ` again, in about ${lasting(answer.etaSeconds)}.`),
      isAll ? make("p", { class: "mark warn" }, make("span", { "aria-hidden": "true" }, "▲"), " The form is empty: these are all stored events of its sources.") : "",
      make("p", { class: "hint" }, "Live events are not delayed. You can pause or cancel the replay at any time."));
    problem.textContent = "";
    const old = dialog.querySelector("[data-send]");
    const button = make("button", { type: "button", class: "primary", "data-send": true }, `Send ${events(answer.total)}`);
    // No more than was counted: what has come since is not among it.
    button.addEventListener("click", () => send(button, problem, { ...asked, to: asked.to ?? answer.createdAt }));
    old.replaceWith(button);
    dialog.showModal();
    button.focus();
  };

  const send = async (button, problem, asked) => {
    button.disabled = true;
    const answer = await fetch("/api/v1/replays", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(asked),
    }).catch(() => null);
    const made = await answer?.json().catch(() => null);
    if (answer?.ok) { location.assign(`/replays/${encodeURIComponent(made.id)}`); return; }
    problem.textContent = `■ ${made?.detail || "Hookline did not answer. Check the list below before you try again."}`;
    button.disabled = false;
  };

  const lasting = (seconds) => {
    if (seconds < 1.5) return "a second";
    if (seconds < 120) return `${Math.round(seconds)} seconds`;
    return seconds < 7200 ? `${Math.round(seconds / 60)} minutes` : `${Math.round(seconds / 3600)} hours`;
  };

  document.addEventListener("answered", (event) => {
    if (event.target.matches("[data-replay]")) counted(event.target, event.detail);
  });
  document.addEventListener("input", (event) => {
    const place = event.target.form?.querySelector("[data-counted]");
    if (place) { place.hidden = true; place.replaceChildren(); event.target.form.counting = null; }
  });
})();
