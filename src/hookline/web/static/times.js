// Times as people say them: relative or lasting, the exact one in the reader's zone on hover, and on paper.
(() => {
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
  // 24 to 48 hours ago may be two calendar days ago, so it is "1 day ago" and not "yesterday".
  const days = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "short" });
  const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const ago = (seconds) => {
    for (const [unit, size] of UNITS) {
      // What is to come is rounded: a sync every two hours is due in two, not in one hour and 59 minutes.
      if (Math.abs(seconds) >= size || unit === "second") return (unit === "day" ? days : relative).format(Math[seconds > 0 ? "round" : "trunc"](seconds / size), unit);
    }
    return "";
  };
  const lasting = (seconds) => {
    const parts = [];
    for (const [unit, size] of UNITS) {
      const count = Math.floor(seconds / size);
      seconds -= count * size;
      if (count && parts.length < 2) parts.push(`${count} ${unit[0]}`);
    }
    return parts.join(" ") || "0 s";
  };
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
  const WRITTEN = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g;
  hookline.atClock = (text) => text.replace(WRITTEN, (at) => clock.format(Date.parse(at)));
  const paper = matchMedia("print");
  const wordsOf = (time, at) => {
    if (paper.matches && "relative" in time.dataset) return exact.format(at); // "5 min. ago" means nothing in a file
    const seconds = (at - Date.now()) / 1000;
    if ("relative" in time.dataset) return ago("coming" in time.dataset ? Math.max(0, seconds) : seconds);
    if ("duration" in time.dataset) return lasting(Math.max(0, -seconds));
    return clock.format(at);
  };
  const tick = () => {
    for (const time of document.querySelectorAll("time[data-relative], time[data-duration], time[data-clock]")) {
      const at = Date.parse(time.dateTime);
      if (Number.isNaN(at) || ("clock" in time.dataset && time.title)) continue;
      const text = wordsOf(time, at);
      if (time.textContent !== text) time.textContent = text;
      if (!time.title) time.title = `${exact.format(at)} · ${new Date(at).toISOString()}`;
    }
  };
  setInterval(tick, 1000);
  paper.addEventListener("change", tick);
  hookline.onDress(tick);
})();
