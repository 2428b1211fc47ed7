// Snippets one beside the other: without scripts they stand below each other, with them they are tabs.
(() => {
  const dress = (tabs) => {
    if (tabs.querySelector("[role=tablist]")) return;
    const panels = [...tabs.querySelectorAll("[data-tab]")];
    const list = document.createElement("div");
    list.setAttribute("role", "tablist");
    const pick = (index, focus) => {
      tabs.dataset.picked = String(index);
      panels.forEach((panel, i) => { panel.hidden = i !== index; });
      [...list.children].forEach((button, i) => {
        button.setAttribute("aria-selected", String(i === index));
        button.tabIndex = i === index ? 0 : -1;
        if (i === index && focus) button.focus();
      });
    };
    panels.forEach((panel, index) => {
      panel.setAttribute("role", "tabpanel");
      const button = document.createElement("button");
      button.type = "button";
      button.id = `${panel.id}-button`;
      button.setAttribute("role", "tab");
      button.setAttribute("aria-controls", panel.id);
      button.textContent = panel.dataset.tab;
      button.addEventListener("click", () => pick(index));
      panel.setAttribute("aria-labelledby", button.id);
      list.append(button);
    });
    list.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) pick((Number(tabs.dataset.picked) + step + panels.length) % panels.length, true);
    });
    tabs.prepend(list);
    tabs.classList.add("dressed");
    pick(Number(tabs.dataset.picked || 0));
  };
  hookline.onDress((scope) => { for (const tabs of scope.querySelectorAll("[data-tabs]")) dress(tabs); });
})();
