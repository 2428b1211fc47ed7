// <button data-check-connection data-destination="lake">: asks whether a destination could write with the settings that its
// form has now, saved or not (without a form: as saved). What comes of it stands in [data-connection] of the form or section.
(() => {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-check-connection]");
    if (!button || button.disabled) return;
    const form = button.form;
    const place = (form || button.closest("section")).querySelector("[data-connection]");
    const say = (text, isBad) => {
      place.textContent = text;
      place.classList.toggle("error", Boolean(isBad));
    };
    const { destination, kind } = button.dataset;
    let asked = { id: destination };
    if (form) {
      try {
        const { body } = hookline.fields.read(form, destination ? "PATCH" : "POST");
        asked = { id: destination || body.id || "", kind, settings: body.settings || {} };
      } catch (error) {
        say(`■ ${error.message}`, true);
        return;
      }
    }
    button.disabled = true;
    say("Connecting…");
    try {
      const headers = { Accept: "application/json", "Content-Type": "application/json" };
      const answer = await fetch("/api/v1/destinations/check-connection", { method: "POST", headers, body: JSON.stringify(asked) });
      if (answer.status === 401) { hookline.toSignIn(); return; }
      const found = await answer.json();
      if (answer.ok) {
        say(`${found.ok ? "●" : "■"} ${found.place}: ${found.message}`, !found.ok);
        button.dispatchEvent(new CustomEvent("checked", { bubbles: true, detail: found.ok }));
      } else say(`■ ${(found.errors || []).map((each) => each.detail).join(" ") || found.detail}`, true);
    } catch {
      say("■ Hookline did not answer. Try again in a moment.", true);
    } finally {
      button.disabled = false;
    }
  });
})();
