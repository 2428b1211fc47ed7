// Applies the chosen theme before the first paint; without a choice the system's counts.
(() => {
  const root = document.documentElement;
  const order = ["auto", "light", "dark"];
  const stored = () => {
    try { return localStorage.getItem("theme") || "auto"; } catch { return "auto"; }
  };
  const apply = (theme) => {
    if (theme === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", theme);
  };
  apply(stored());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-theme-switch]");
    if (!button) return;
    const label = () => { button.textContent = `Theme: ${stored()}`; };
    label();
    button.addEventListener("click", () => {
      const next = order[(order.indexOf(stored()) + 1) % order.length];
      try { localStorage.setItem("theme", next); } catch { /* private mode: for this page only */ }
      apply(next);
      label();
    });
  });
})();
