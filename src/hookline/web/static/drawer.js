// What narrow screens need: the rail as a drawer (what lies behind it is out of reach until it closes, and focus comes
// back), and the tab of the page in sight.
(() => {
  for (const tab of document.querySelectorAll(".tab-links [aria-current]")) {
    tab.parentElement.scrollLeft = tab.offsetLeft - tab.parentElement.offsetLeft - 48;
  }
  const rail = document.getElementById("rail");
  const behind = document.querySelectorAll(".skip, .content");
  const setBehind = (inert) => { for (const element of behind) element.inert = inert; };
  // Before it closes: the browser gives the focus back to the button, which has to be in reach by then.
  rail?.addEventListener("beforetoggle", (event) => { if (event.newState === "closed") setBehind(false); });
  rail?.addEventListener("toggle", (event) => {
    if (event.newState !== "open") return;
    setBehind(true);
    (rail.querySelector("[aria-current]") || rail.querySelector("a"))?.focus();
  });
  matchMedia("(min-width: 900px)").addEventListener("change", (wide) => {
    if (wide.matches && rail?.matches(":popover-open")) rail.hidePopover();
  });
})();
