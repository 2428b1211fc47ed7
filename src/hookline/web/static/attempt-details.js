// What an attempt sent and was answered, fetched when its details are opened; what was fetched stays as the page goes on.
(() => {
  const { make } = hookline.elements;
  const KEPT_MAX = 100;
  const known = new Map();

  const fetched = async (url) => {
    const answer = await fetch(url).catch(() => null);
    const json = await answer?.json().catch(() => null);
    if (!answer?.ok) throw new Error(json?.detail || "Hookline did not answer. Close this and open it again.");
    return json;
  };

  const drawn = ({ attempt, request, note, answer }) => make("div", { class: "shown" },
    request ? hookline.asSent.request(request) : make("p", { class: "muted" }, `The request is not available: ${note}.`),
    answer ? hookline.asSent.answered(answer)
      : make("p", { class: "muted" }, attempt.outcome === "success" ? `The receiver answered ${attempt.httpStatus}. Hookline does not keep the rest of successful answers.`
        : attempt.error ? make("bdi", { class: "error-text" }, attempt.error) : "No answer."));

  const fill = async (details) => {
    const place = details.querySelector("[data-fetched]");
    if (!details.open || place.firstChild) return;
    const url = details.dataset.attempt;
    if (!known.has(url)) {
      place.textContent = "…";
      try { known.set(url, await fetched(url)); } catch (error) {
        place.replaceChildren(make("p", { class: "error", role: "alert" }, `■ ${error.message}`));
        return;
      }
      if (known.size > KEPT_MAX) known.delete(known.keys().next().value);
    }
    place.replaceChildren(drawn(known.get(url)));
  };

  document.addEventListener("toggle", (event) => { if (event.target.matches?.("[data-attempt]")) fill(event.target); }, true);
  hookline.onDress((scope) => scope.querySelectorAll("[data-attempt][open]").forEach(fill));
})();
