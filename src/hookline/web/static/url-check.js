// Says at once, below the field, when Hookline would refuse to send to a webhook URL; the server knows what it allows.
(() => {
  const place = (field) => {
    const found = field.parentElement.querySelector("[data-url-check]");
    if (found) return found;
    const made = Object.assign(document.createElement("p"), { className: "hint warn" });
    made.dataset.urlCheck = "";
    made.setAttribute("role", "status");
    field.after(made);
    return made;
  };

  document.addEventListener("change", async (event) => {
    const field = event.target;
    if (!field.matches?.('form[data-api] input[type="url"]')) return;
    const said = place(field);
    said.textContent = "";
    const url = field.value.trim();
    if (!/^https?:\/\/[^/]/.test(url)) return; // saving says what is wrong with it
    try {
      const headers = { Accept: "application/json", "Content-Type": "application/json" };
      const answer = await fetch("/api/v1/receivers/check", { method: "POST", headers, body: JSON.stringify({ url }) });
      const { problem } = answer.ok ? await answer.json() : {};
      if (problem && field.value.trim() === url) said.textContent = `▲ ${problem}`;
    } catch { /* the form itself says when the server does not answer */ }
  });
})();
