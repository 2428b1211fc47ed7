// Dialogs: data-dialog opens the one it names, data-close closes its own, data-must holds the button until a name is typed.
(() => {
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-dialog]");
    if (opener) document.getElementById(opener.dataset.dialog)?.showModal();
    const closer = event.target.closest("[data-close]");
    if (closer) closer.closest("dialog")?.close();
    if (event.target instanceof HTMLDialogElement) event.target.close(); // beside the sheet
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
