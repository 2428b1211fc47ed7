// Dialogs: data-dialog opens the one it names, data-close closes its own, data-must holds the button until a name is typed.
(() => {
  // The sheet's own edge belongs to the sheet. A selection of text may begin in it and end beside it, or the other way
  // round: only a press that begins and ends beside the sheet leaves it, for what was typed or shown once goes with it.
  const isBeside = ({ target, clientX, clientY }) => {
    if (!(target instanceof HTMLDialogElement)) return false;
    const sheet = target.getBoundingClientRect();
    return clientX < sheet.left || clientX > sheet.right || clientY < sheet.top || clientY > sheet.bottom;
  };
  let beganBeside = false;
  document.addEventListener("pointerdown", (event) => { beganBeside = isBeside(event); });
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-dialog]");
    if (opener) document.getElementById(opener.dataset.dialog)?.showModal();
    const closer = event.target.closest("[data-close]");
    if (closer) closer.closest("dialog")?.close();
    if (beganBeside && isBeside(event)) event.target.close();
  });
  // An address may name a dialog of its page, so that others can lead to it: nothing is sent before its button.
  const openNamed = () => {
    const named = location.hash ? document.getElementById(location.hash.slice(1)) : null;
    if (!(named instanceof HTMLDialogElement) || document.querySelector("dialog[open]")) return;
    history.replaceState(null, "", location.pathname + location.search); // a reload, or a way back, does not ask again
    named.showModal();
  };
  addEventListener("hashchange", openNamed);
  openNamed();
  document.addEventListener("input", (event) => {
    const wanted = event.target.dataset?.must;
    if (wanted === undefined) return;
    const button = event.target.form.querySelector("button:not([type=button])");
    button.disabled = event.target.value !== wanted;
  });
  document.addEventListener("close", (event) => { // capture: it does not bubble
    for (const form of event.target.querySelectorAll("form")) {
      form.reset();
      for (const must of form.querySelectorAll("[data-must]")) must.dispatchEvent(new Event("input", { bubbles: true }));
      delete form.dataset.dirty;
      form.querySelector("[data-answered]")?.remove(); // what was shown once; the page may go on
    }
  }, true);
})();
