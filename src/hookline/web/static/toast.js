// Says in a corner of the window what a press has done, wherever the page is scrolled to: the form it was in may be gone.
(() => {
  const SHOWN_MS = 10_000;
  const KEPT = "toast";
  const place = document.querySelector("[data-toast]");
  if (!place) return;
  let timer = 0;

  // offer: the id of what is offered with it, where there is something, such as a button that opens a dialog.
  hookline.toast = (message, offer = "") => {
    if (!message) return;
    clearTimeout(timer);
    const offered = document.getElementById(offer)?.cloneNode(true).childNodes ?? [];
    place.replaceChildren(message, ...(offered.length ? [" ", ...offered] : []));
    timer = setTimeout(() => { place.textContent = ""; }, SHOWN_MS);
  };
  // The page that comes next says it, such as a list after something of it was deleted.
  hookline.toastNext = (message) => {
    try { sessionStorage.setItem(KEPT, message); } catch { /* private mode: the next page shows the result anyway */ }
  };
  try {
    const kept = sessionStorage.getItem(KEPT);
    sessionStorage.removeItem(KEPT);
    if (kept) requestAnimationFrame(() => hookline.toast(kept)); // a change is announced, what stood there at first is not
  } catch { /* private mode */ }
})();
