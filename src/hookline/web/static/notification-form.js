// The form of a notification: shows the filters and thresholds that mean something for what is chosen, and leaves out
// of the request what is hidden.
(() => {
  const wordsOf = (element, name) => (element.dataset[name] || "").split(" ").filter(Boolean);

  const show = (part, visible) => {
    part.hidden = !visible;
    for (const field of part.querySelectorAll("input, select, textarea")) {
      if (!field.closest("[hidden]")) field.disabled = false;
      else field.disabled = true;
    }
  };

  const dress = (form) => {
    const chosen = [...form.querySelectorAll("[name=when]:checked")];
    const abouts = new Set(chosen.map((each) => each.dataset.about));
    const thresholds = new Set(chosen.flatMap((each) => wordsOf(each, "thresholds")));
    for (const part of form.querySelectorAll("[data-for-threshold]")) {
      show(part, wordsOf(part, "forThreshold").some((each) => thresholds.has(each)));
    }
    for (const part of form.querySelectorAll("[data-for-about]")) show(part, abouts.has(part.dataset.forAbout));
    for (const switched of form.querySelectorAll("[data-enables]")) {
      const part = document.getElementById(switched.dataset.enables);
      show(part, switched.checked);
      const zone = part.querySelector("[data-own-zone]");
      if (switched.checked && !zone.value) zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
    }
  };

  const missing = (place, filled, message) => {
    place.querySelector(":scope > [data-error]").textContent = filled ? "" : `■ ${message}`;
    if (!filled) place.querySelector("input, textarea").focus();
    return !filled;
  };

  hookline.onDress((scope) => {
    for (const form of scope.querySelectorAll("form[data-notification]")) dress(form);
  });
  document.addEventListener("change", (event) => {
    if (event.target.form && "notification" in event.target.form.dataset) dress(event.target.form);
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!("notification" in form.dataset)) return;
    const whens = form.querySelector("[data-whens]"), channels = form.querySelector("[data-channels]");
    const has = [...channels.querySelectorAll("input, textarea")].some((each) => each.value.trim());
    if (missing(channels, has, "Give at least one address or URL.")
      | missing(whens, form.querySelector("[name=when]:checked"), "Choose at least one.")) {
      event.preventDefault();
      event.stopImmediatePropagation();
    }
  }, true);
})();
