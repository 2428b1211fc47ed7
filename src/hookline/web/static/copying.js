// Buttons that copy: data-copy names an element whose text (of a field, what is in it now) is copied, data-copy-text is
// the text itself.
(() => {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-copy-text]");
    if (!button) return;
    const source = button.dataset.copy ? document.getElementById(button.dataset.copy) : null;
    if (!source && !("copyText" in button.dataset)) return;
    const word = button.dataset.word || (button.dataset.word = button.textContent);
    const done = await copied(source ? textOf(source) : button.dataset.copyText, source);
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = word; }, 1600);
  });
  const textOf = (source) => source instanceof HTMLInputElement ? source.value : source.textContent;
  const copied = async (text, source) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch { // without TLS there is no clipboard: leave the text selected
      if (!source) return false;
      if (source instanceof HTMLInputElement) source.select();
      else select(source);
      try { return document.execCommand("copy"); } catch { return false; }
    }
  };
  const select = (source) => {
    const range = document.createRange();
    range.selectNodeContents(source);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  };
})();
