// The test of the set-up: shows what came of it, in the tester's words. The address keeps whether it failed, for the steps.
(() => {
  const { make } = hookline.elements;
  const { request, answer, unsent, impossible } = hookline.asSent;

  const show = (place, report, reasons) => {
    place.replaceChildren(
      unsent(report, reasons) || "", ...impossible(report),
      ...(report.answers || []).map((each) => make("div", {}, make("p", { class: "mono" }, make("bdi", {}, each.url)), answer(each))),
      ...report.requests.map((each) => make("details", {}, make("summary", {}, "The request to ", make("bdi", {}, each.url)), request(each))));
    place.tabIndex = -1;
    place.focus();
  };

  const note = (isGood) => {
    const address = new URL(location.href);
    address.searchParams.set("tested", isGood ? "ok" : "failed");
    history.replaceState(null, "", address.pathname + address.search);
    hookline.look();
  };

  document.addEventListener("answered", ({ target: form, detail: report }) => {
    const place = form.querySelector("[data-reported]");
    if (!place) return;
    show(place, report, JSON.parse(form.dataset.report));
    const { answers, problems } = report;
    if (answers && answers.length + problems.length) note(!problems.length && answers.every((each) => each.means === "accepted"));
  });
  document.addEventListener("checked", ({ detail: isGood }) => note(isGood));
})();
