// Draws each chart from the table below it, with uPlot; the legend shows the numbers of all lines where the pointer is.
(() => {
  const HEIGHT_PIXELS = 160;
  const LABEL_HALF_PIXELS = 32;
  const SHAPES = { good: "●", wait: "◔", warn: "▲", dead: "■", off: "○", accent: "◆" };
  const DASHES = { good: [], wait: [6, 4], warn: [2, 3], dead: [8, 3, 2, 3], off: [1, 4], accent: [] };
  const drawn = new Map();
  const DAY_SECONDS = 86400;
  const hour = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
  const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
  const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "short" });

  const read = (figure) => {
    const heads = [...figure.querySelectorAll("thead th")].slice(1);
    const rows = [...figure.querySelectorAll("tbody tr")];
    const times = rows.map((row) => Date.parse(row.querySelector("time").dateTime) / 1000);
    const columns = heads.map((_, i) => rows.map((row) => {
      const cell = row.cells[i + 1];
      return "value" in cell.dataset ? Number(cell.dataset.value) : null;
    }));
    const names = heads.map((head) => ({ name: head.textContent, kind: head.dataset.kind }));
    return { names, data: [times, ...columns] };
  };

  const short = (value) => {
    if (value === null || value === undefined) return "no data";
    if (Math.abs(value) >= 1000) return Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
    return digits(value);
  };
  const digits = (value) => String(Number(value.toPrecision(3)));

  // Times read as 840 ms, 1.3 s or 2.5 min; every other number keeps the unit of its chart.
  const inUnit = (value, unit) => {
    if (value === null || value === undefined) return "no data";
    if (unit !== "ms") return short(value) + (unit ? ` ${value === 1 && unit === "events" ? "event" : unit}` : "");
    if (value >= 60000) return `${digits(value / 60000)} min`;
    return value >= 1000 ? `${digits(value / 1000)} s` : `${digits(value)} ms`;
  };

  // Only points without neighbours are drawn as such: no line would show them.
  const alone = (drawing, index) => {
    const values = drawing.data[index];
    const has = (at) => values[at] !== null && values[at] !== undefined;
    return [...values.keys()].filter((at) => has(at) && !has(at - 1) && !has(at + 1));
  };

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.plot = figure.querySelector("[data-plot]");
      this.legend = figure.querySelector("[data-legend]");
      this.unit = figure.dataset.unit || "";
      this.text = "";
    }

    update() {
      const { names, data } = read(this.figure);
      const text = JSON.stringify([names, data]);
      if (text === this.text) return;
      const sameLines = JSON.stringify(names) === JSON.stringify(this.names);
      Object.assign(this, { text, names, data });
      const known = data.slice(1).flat().filter((value) => value !== null);
      this.isEmpty = known.length === 0;
      this.isFlat = known.every((value) => value === 0);
      if (this.isEmpty) this.plot.dataset.empty = "No data in this range yet";
      else delete this.plot.dataset.empty;
      if (this.drawing && sameLines) this.drawing.setData(data);
      else this.draw();
      this.tell(null);
    }

    draw() {
      this.drawing?.destroy();
      this.drawing = null;
      this.legend.replaceChildren(...this.names.map(({ name, kind }) => {
        const mark = document.createElement("span");
        mark.className = `mark ${kind}`;
        mark.append(`${SHAPES[kind] || ""} ${name} `, document.createElement("b"));
        return mark;
      }), Object.assign(document.createElement("span"), { className: "when" }));
      const colour = (index) => () => getComputedStyle(this.legend.children[index]).color;
      const ink = () => getComputedStyle(this.figure.querySelector("summary")).color;
      const faint = () => getComputedStyle(this.figure).borderTopColor;
      const axis = { stroke: ink, ticks: { show: false }, font: "12px system-ui, sans-serif" };
      this.drawing = new uPlot({
        width: this.width(),
        height: HEIGHT_PIXELS,
        padding: [null, LABEL_HALF_PIXELS, null, null], // a last point on the hour is labelled in full
        legend: { show: false },
        cursor: { sync: { key: "hookline" }, drag: { x: false, y: false }, points: { size: 6 } },
        scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [
          { ...axis, grid: { show: false }, size: 28, space: 72, values: (_, splits) => splits.map((at) => this.when(at)).map((text, at, all) => (text === all[at - 1] ? "" : text)) },
          { ...axis, grid: { stroke: faint, width: 1 }, size: 56, space: 48, values: (_, splits) => splits.map((at) => this.amount(at)) },
        ],
        series: [{}, ...this.names.map(({ name, kind }, index) => ({
          label: name, stroke: colour(index), width: 1.5, dash: DASHES[kind], points: { size: 4, filter: alone }, spanGaps: false,
        }))],
        hooks: { setCursor: [(drawing) => this.tell(drawing.cursor.idx)] },
      }, this.data, this.plot);
    }

    // Up to two days are labelled by the clock, more by the day.
    when(seconds) {
      const times = this.data[0];
      const isLong = times.length > 1 && times.at(-1) - times[0] > 2 * DAY_SECONDS;
      return (isLong ? day : hour).format(seconds * 1000);
    }

    // Where there is no number, or none but 0, an axis up to 1 would say something that is not so.
    amount(at) {
      if (this.isEmpty || (this.isFlat && at !== 0)) return "";
      return this.unit === "ms" ? inUnit(at, "ms") : short(at);
    }

    width() { return Math.max(200, this.plot.clientWidth); }

    // The numbers at a place of the time axis; without a pointer the newest that are known.
    tell(index) {
      this.names.forEach((_, i) => {
        const values = this.data[i + 1];
        const at = index ?? values.findLastIndex((value) => value !== null);
        const value = values[at];
        this.legend.children[i].querySelector("b").textContent = this.isEmpty ? "" : inUnit(value, this.unit);
      });
      const when = this.legend.querySelector(".when");
      when.textContent = index === null || index === undefined ? "" : clock.format(this.data[0][index] * 1000);
    }
  }

  hookline.onDress((scope) => {
    for (const figure of scope.querySelectorAll("[data-chart]")) {
      if (!drawn.has(figure)) {
        const chart = new Chart(figure);
        drawn.set(figure, chart);
        new ResizeObserver(() => {
          const size = { width: chart.width(), height: HEIGHT_PIXELS };
          if (chart.drawing && chart.drawing.width !== size.width) chart.drawing.setSize(size);
        }).observe(chart.plot);
      }
      drawn.get(figure).update();
    }
  });
  const recolour = () => { for (const chart of drawn.values()) chart.drawing?.redraw(true); };
  new MutationObserver(recolour).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
})();
