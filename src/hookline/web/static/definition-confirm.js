// Before a definition is saved: what is still to be filled in is said at its place; then a question says how many people
// there are and what is sent to whom, and only its button saves.
(() => {
  const { make, number } = hookline.elements;
  const dialog = document.getElementById("confirm");
  const form = document.querySelector(".definition-form");
  const builder = form.querySelector("condition-builder, trait-builder");
  const preview = form.querySelector("definition-preview");
  const isNew = !("match" in form.dataset);
  const says = dialog.querySelector("[data-says]");
  const later = dialog.querySelector("[data-later]");
  const before = new Set([...form.querySelectorAll("[name=destinations]:checked")].map(({ value }) => value));
  let isConfirmed = false;

  const chosen = () => [...form.querySelectorAll("[name=destinations]:checked")];
  const nameOf = (box) => form.querySelector(`label[for="${box.id}"] bdi`).textContent;
  const listed = (names) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0]);
  const people = (count) => `${number(count)} ${count === 1 ? "person" : "people"}`;

  // What will happen, from what the preview found; null as long as it counts.
  const sentences = () => {
    const { found, isTrait } = preview;
    const names = chosen().map(nameOf);
    const is = (count) => (count === 1 ? "is" : "are");
    const isOff = !form.elements.enabled.checked;
    if (found === null) return [builder.asked ? "Counting people…" : "People cannot be counted: this is not JSON."];
    if (found.failed) return [`People could not be counted: ${found.failed}`];
    const { members, comparison } = found;
    const changes = comparison ? comparison.added + comparison.removed : members;
    const first = comparison
      ? `${people(comparison.added)} will join and ${people(comparison.removed)} will leave. Afterwards there ${is(members)} ${number(members)} ${members === 1 ? "member" : "members"}.`
      : isTrait ? `${people(members)} will have a value.` : `${number(members)} of ${people(found.people)} will be in this audience.`;
    if (isOff) return [first, "It is not enabled: nothing is synced."];
    if (!names.length) return [first, "No destination is chosen: nothing is synced."];
    const added = isNew ? [] : chosen().filter((box) => !before.has(box.value)).map(nameOf);
    const all = added.length && members
      ? [`${listed(added)} ${added.length === 1 ? "is new here and gets" : "are new here and get"} up to ${number(members)} identify ${members === 1 ? "call" : "calls"}${added.length > 1 ? " each" : ""}: one for each ${isTrait ? "value" : "member"}.`] : [];
    if (!changes) return [first, ...(all.length ? all : ["Nothing is synced now."])];
    if (isTrait && !isNew) return [first, ...all, `Values that differ from the last sync are synced to ${listed(names)} after saving.`];
    const calls = `up to ${number(changes)} identify ${changes === 1 ? "call" : "calls"}${names.length > 1 ? " each" : ""} to ${listed(names)}`;
    return [first, ...all, `Hookline sends ${calls} ${isNew ? "now" : "after saving"}. People without a user id are synced once they have one.`];
  };

  const draw = () => {
    if (!dialog.open) return;
    says.replaceChildren(...sentences().map((each) => make("p", {}, make("bdi", {}, each))));
    later.hidden = !isNew || !chosen().length || !form.elements.enabled.checked;
  };

  // While it is captured, before api-form.js sends anything.
  form.addEventListener("submit", (event) => {
    if (isConfirmed) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    builder.clear();
    if (builder.complain()) return;
    dialog.querySelector("h2").textContent = `${isNew ? "Create" : "Save"} ${form.elements.name.value}`;
    preview.hurry(true);
    dialog.showModal();
    draw();
    dialog.querySelector("[data-go]").focus();
  }, true);
  preview.addEventListener("counted", draw);

  const go = () => {
    dialog.close();
    isConfirmed = true;
    try { form.requestSubmit(); } finally { isConfirmed = false; }
  };
  dialog.querySelector("[data-go]").addEventListener("click", go);
  later.addEventListener("click", () => {
    const boxes = chosen();
    for (const box of boxes) box.checked = false;
    go();
    for (const box of boxes) box.checked = true; // what was read is sent; after a refusal they are still chosen
  });
})();
