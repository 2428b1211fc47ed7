// Saved views of a list: they are looked up when the menu is opened, and hold the address as it is then.
(() => {
  const row = (each, menu) => {
    const item = document.createElement("li");
    const link = Object.assign(document.createElement("a"), { href: hookline.below(each.href), textContent: each.name });
    item.append(link);
    if (each.shared) item.append(Object.assign(document.createElement("span"), { className: "muted", textContent: "shared" }));
    if (each.changeable) {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "quiet", textContent: "Delete" });
      button.setAttribute("aria-label", `Delete ${each.name}`);
      button.addEventListener("click", async () => {
        await fetch(`/api/v1/views/${each.id}`, { method: "DELETE" }).catch(() => null);
        fill(menu);
      });
      item.append(button);
    }
    return item;
  };

  const fill = async (menu) => {
    const query = new URLSearchParams({ path: menu.dataset.views });
    const answer = await fetch(`/api/v1/views?${query}`).catch(() => null);
    if (answer?.status === 401) { hookline.toSignIn(); return; }
    if (!answer?.ok) return;
    const { items } = await answer.json();
    menu.querySelector("[data-views-list]").replaceChildren(...items.map((each) => row(each, menu)));
    menu.querySelector("[data-views-none]").hidden = items.length > 0;
  };

  document.addEventListener("toggle", (event) => {
    const menu = event.target.closest?.("details[data-views]");
    if (menu?.open) fill(menu);
  }, true);
  document.addEventListener("submit", (event) => { // before the form speaks to the API
    const form = event.target.closest("[data-views-form]");
    if (form) form.elements.query.value = location.search.slice(1);
  }, true);
  document.addEventListener("answered", (event) => {
    const form = event.target.closest("[data-views-form]");
    if (!form) return;
    form.reset();
    fill(form.closest("[data-views]"));
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details[data-views][open]")) if (!menu.contains(event.target)) menu.open = false;
  });
})();
