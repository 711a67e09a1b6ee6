// SPDX-License-Identifier: MIT
// Follows what the registry says has changed, and draws the figures of the page. Without this file the page works, too.
"use strict";

const colours = ["--first", "--second", "--third", "--well", "--warn"];
const drawn = [];
// Ticks of an axis of time: the least distance of two ticks, their text, and what the first one of a year, and of a
// day, has below it.
const times = [
  [86400 * 365, "{YYYY}", null, null, null, null, null, null, 1],
  [86400 * 28, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
];

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Columns of numbers from the figure's table: [[x ...], [y ...], ...]; null where a cell has no value.
function columnsOf(figure) {
  const rows = [...figure.querySelectorAll("tbody tr")].map((row) =>
    [...row.cells].map((cell) => ("v" in cell.dataset ? Number(cell.dataset.v) : null)));
  rows.sort((a, b) => a[0] - b[0]);
  return rows.length ? rows[0].map((_, i) => rows.map((row) => row[i])) : [];
}

// Vertical lines, each with its text beside it.
function drawMarks(plot, marks) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("--dim");
  ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  for (const [value, text] of marks) {
    const x = plot.valToPos(Number(value), "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(text, x + 4 * devicePixelRatio, bbox.top + 10 * devicePixelRatio);
  }
  ctx.restore();
}

function draw(figure) {
  const data = columnsOf(figure);
  if (!window.uPlot || !data.length || figure.querySelector(".uplot")) return;
  const names = [...figure.querySelectorAll("thead th")].map((cell) => cell.textContent);
  const band = (figure.dataset.band || "").split(",").filter(Boolean).map(Number);
  const unit = figure.dataset.unit ? ` ${figure.dataset.unit}` : "";
  const time = figure.dataset.axis === "time";
  const axis = { stroke: colour("--dim"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid") } };
  const points = data[0].length < 40;
  const series = names.map((label, i) => {
    if (i === 0) return time ? { label, value: "{YYYY}-{MM}-{DD} {HH}:{mm}" } : { label };
    const inBand = band.includes(i);
    const stroke = colour(colours[inBand ? 0 : (i - 1) % colours.length]);
    return { label, stroke, width: inBand ? 0 : 2, points: { show: points && !inBand, size: 6 }, spanGaps: false,
      value: (_, v) => (v === null || v === undefined ? "–" : `${Math.round(v * 100) / 100}${unit}`) };
  });
  const zero = "zero" in figure.dataset;
  const options = {
    width: figure.clientWidth - 24, height: 220, series, ms: 1,
    scales: { x: { time, range: (plot, low, high) => {
      const least = time ? 3600 : 1;
      // Of a single point uPlot makes a day of its own.
      if (plot.data[0].length === 1) return [plot.data[0][0] - least / 2, plot.data[0][0] + least / 2];
      return high - low >= least ? [low, high] : [(low + high - least) / 2, (low + high + least) / 2];
    } }, y: { range: (_, low, high) => {
      const least = zero ? Math.min(0, low ?? 0) : (low ?? 0);
      const most = high ?? 1;
      return [least, most === least ? least + 1 : most + (most - least) * 0.08];
    } } },
    axes: [time ? { ...axis, values: times } : axis, { ...axis, size: 70, values: (_, ticks) => ticks.map((tick) => `${tick}${unit}`) }],
    legend: { live: true }, cursor: { drag: { x: true, y: false } },
  };
  const marks = (figure.dataset.marks || "").split(";").filter(Boolean).map((mark) => mark.split("|"));
  if (marks.length) options.hooks = { draw: [(plot) => drawMarks(plot, marks)] };
  if (time) { options.ms = 1e-3; options.tzDate = (ts) => uPlot.tzDate(new Date(ts * 1e3), "UTC"); }
  if (band.length === 2) options.bands = [{ series: [band[1], band[0]], fill: colour("--idle-soft") }];
  const place = document.createElement("div");
  place.setAttribute("aria-hidden", "true");
  figure.insertBefore(place, figure.querySelector("details"));
  drawn.push([figure, new uPlot(options, data, place), place]);
}

function drawAll() {
  document.querySelectorAll("figure.chart").forEach(draw);
}

function drawAnew() {
  while (drawn.length) { const [, plot, place] = drawn.pop(); plot.destroy(); place.remove(); }
  drawAll();
}

// Loads the part `live` of the page anew: at most once in 300 ms, and not while someone reads a table of figures.
function follow(body) {
  const topics = new Set((body.dataset.topics || "").split(" ").filter(Boolean));
  if (!topics.size || !window.EventSource || !window.htmx) return;
  const source = new EventSource(body.dataset.events);
  let timer = null;
  let wasLost = false;
  const load = () => { timer = timer || setTimeout(() => { timer = null; htmx.trigger(body, "ccatune-changed"); }, 100); };
  source.addEventListener("changed", (event) => { if (JSON.parse(event.data).some((topic) => topics.has(topic))) load(); });
  source.addEventListener("open", () => { document.getElementById("following").hidden = false; if (wasLost) load(); wasLost = false; });
  source.addEventListener("error", () => { document.getElementById("following").hidden = true; wasLost = true; });
  addEventListener("pagehide", () => source.close());
}

// The end of a log is shown, and followed unless someone has scrolled up.
function isAtEnd(log) {
  return log.scrollHeight - log.scrollTop - log.clientHeight < 8;
}

function showLogEnds() {
  document.querySelectorAll("pre.log").forEach((log) => { log.scrollTop = log.scrollHeight; });
}

function keepOpenDetails(body) {
  let open = [];
  let tops = [];
  const titles = () => [...document.querySelectorAll("#live details[open] > summary")].map((found) => found.textContent);
  body.addEventListener("htmx:beforeSwap", () => {
    open = titles();
    tops = [...document.querySelectorAll("#live pre.log")].map((log) => (isAtEnd(log) ? null : log.scrollTop));
  });
  body.addEventListener("htmx:afterSettle", () => {
    document.querySelectorAll("#live details > summary").forEach((found) => {
      if (open.includes(found.textContent)) found.parentElement.open = true;
    });
    showLogEnds();
    document.querySelectorAll("#live pre.log").forEach((log, i) => { if (tops[i] != null) log.scrollTop = tops[i]; });
    drawAnew();
  });
}

addEventListener("DOMContentLoaded", () => {
  drawAll();
  showLogEnds();
  follow(document.body);
  keepOpenDetails(document.body);
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawAnew(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAnew);
  // Forms ask before what cannot be undone at once. The server asks nobody, so a page without scripts works, too.
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.ask;
    if (question && !confirm(question)) event.preventDefault();
  });
});
