"use strict";
// Shared by all figures: data, theme, axes, drawing, and the note shown instead of an empty figure.

const page = JSON.parse(document.getElementById("data").textContent);
const chosen = { run: 0, colour: "gain", against: "round", heat: "largest", span: 5, node: null };
const drawers = []; // [section's figures are drawn by, shows one run]

const at = (id) => document.getElementById(id);
const current = () => page.runs[chosen.run];
const several = page.runs.length > 1;

// Plotly reads a few tags and entities in texts: names must stay text.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const short = (text) => plain(text.length > 34 ? text.slice(0, 20) + "…" + text.slice(-12) : text);

// A packed array as numbers, NaN where there is no value; unpacked once.
function unpack(packed) {
  if (!packed.values) {
    const bytes = Uint8Array.from(atob(packed.base64), (c) => c.charCodeAt(0));
    const raw = new window[packed.kind](bytes.buffer);
    packed.values = packed.scale === undefined
      ? raw
      : Float32Array.from(raw, (v) => (v === packed.none ? NaN : v * packed.scale));
    packed.base64 = "";
  }
  return packed.values;
}

// Rows of a packed matrix, null where there is no value.
function rows(packed) {
  const values = unpack(packed), [height, width] = packed.shape;
  return Array.from({ length: height }, (_, r) =>
    Array.from(values.subarray(r * width, (r + 1) * width), (v) => (Number.isFinite(v) ? v : null)));
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}
const series = (n) => colour("s" + (n % 6));
const dashes = ["solid", "dash", "dashdot", "dot", "longdash", "longdashdot"];
const symbols = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross"];

function faded(hex, alpha) {
  const [r, g, b] = [1, 3, 5].map((n) => parseInt(hex.slice(n, n + 2), 16));
  return `rgba(${r},${g},${b},${alpha})`;
}

function axis(title, extra) {
  return Object.assign({
    title: { text: title, standoff: 8, font: { size: 12 } }, gridcolor: colour("rule"), linecolor: colour("rule"),
    zeroline: false, ticks: "outside", tickcolor: colour("rule"), ticklen: 4, automargin: true,
  }, extra);
}

function layout(title, extra) {
  return Object.assign({
    title: title ? { text: title, font: { size: 13 }, x: 0, xref: "paper", xanchor: "left", y: 1, yref: "container", yanchor: "top", pad: { t: 8 } } : undefined,
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("ink") },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 56, r: 14, t: title ? 34 : 12, b: 46 }, hovermode: "closest", showlegend: false,
    hoverlabel: { bgcolor: colour("wash"), bordercolor: colour("rule"), font: { color: colour("ink") } },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11 }, bgcolor: "rgba(0,0,0,0)" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: colour("accent") },
  }, extra);
}

// A legend above the figure needs room for its lines, under the title: the figure grows by them.
function withLegend(made, entries, id) {
  const wide = at(id).clientWidth > 480, lines = Math.ceil(entries / (wide ? 2 : 1));
  at(id).style.height = "";
  at(id).style.height = `${at(id).clientHeight + 19 * lines}px`;
  made.showlegend = true;
  made.legend.traceorder = "normal";
  made.margin.t += 12 + 19 * lines;
  return made;
}

const narrow = () => document.body.clientWidth < 760;

// A colour bar stands beside a figure, or lies under it on a narrow page.
function bar(title) {
  const look = { title: { text: title, side: "right", font: { size: 12 } }, thickness: 12, outlinewidth: 0, tickfont: { size: 11 } };
  if (!narrow()) return look;
  return { ...look, title: { ...look.title, side: "bottom" }, orientation: "h", x: 0.5, y: -0.2, yanchor: "top", len: 1 };
}

// Large values contrast with the background: dark on white, bright on black. Taken from Cividis, which is monotone in grey.
const ramps = {
  light: [[243, 226, 140], [165, 156, 116], [87, 93, 109], [0, 32, 77]],
  dark: [[52, 70, 106], [104, 112, 128], [175, 166, 120], [255, 234, 90]],
};
function shadeColour(share) {
  const ramp = ramps[document.documentElement.dataset.theme];
  const place = Math.min(Math.max(share, 0), 1) * (ramp.length - 1), n = Math.min(Math.floor(place), ramp.length - 2);
  return `rgb(${ramp[n].map((c, k) => Math.round(c + (place - n) * (ramp[n + 1][k] - c))).join(",")})`;
}
const rampScale = () => [0, 1, 2, 3].map((n) => [n / 3, shadeColour(n / 3)]);

// The name of a line across, at its left.
const nameOfLine = (text, y, yanchor = "bottom") => ({
  xref: "paper", x: 0.005, y, text, showarrow: false, xanchor: "left", yanchor, font: { size: 12, color: colour("soft") },
});

const config = { displayModeBar: false, responsive: true };

// Width of a text in pixels.
const pen = document.createElement("canvas").getContext("2d");
function widthOf(text, size) {
  pen.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

// A title that is wider than its figure goes on in the next line. It begins where the plot does.
function wrap(made, width) {
  if (!made.title || !made.title.text) return;
  const most = width - made.margin.l - 8, lines = [""];
  made.title.text.split(" ").forEach((word) => {
    const last = lines[lines.length - 1], longer = last ? `${last} ${word}` : word;
    if (last && widthOf(longer, made.title.font.size) > most) lines.push(word);
    else lines[lines.length - 1] = longer;
  });
  made.title.text = lines.join("<br>");
  made.margin.t += 17 * (lines.length - 1);
  made.title.pad = { t: 8 + 10 * (lines.length - 1) };
}

// Where a click on a figure names a node: from the point that was hit.
const nodeOf = {};
// Along which axis of the run a figure shows the round of the map, if it does.
const cursorOf = {};

// A line at the round shown; none where the figure's axis does not go along rounds.
function cursor(id) {
  const x = cursorOf[id] ? cursorOf[id]() : null;
  return x === null || x === undefined ? [] : [{ type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line: { color: colour("soft"), width: 1, dash: "dot" } }];
}
function placeCursor() {
  Object.keys(cursorOf).forEach((id) => { if (at(id).data && !at(id).classList.contains("hidden")) Plotly.relayout(at(id), { shapes: cursor(id) }); });
}

// Values that differ by less than can be seen: a sentence says more than a row of equal bars.
const alike = (values, share = 0.002) => {
  const known = values.filter((v) => v !== null && Number.isFinite(v));
  return known.length === values.length && known.length > 1 && Math.max(...known) - Math.min(...known) <= share * Math.max(...known.map(Math.abs));
};

// A button beside the others of a figure that is zoomed.
function followZoom(figure, made) {
  const button = figure.parentElement.querySelector(".reset");
  if (!button) return;
  if (!made.uirevision) button.classList.add("hidden");
  figure.removeAllListeners("plotly_relayout");
  figure.on("plotly_relayout", (event) => {
    if (Object.keys(event).some((key) => key.endsWith(".range[0]"))) button.classList.remove("hidden");
    if (Object.keys(event).some((key) => key.endsWith(".autorange"))) button.classList.add("hidden");
  });
  button.onclick = () => {
    const home = {};
    [["xaxis", made.xaxis], ["yaxis", made.yaxis]].forEach(([name, one]) => {
      if (one && figure.home[name]) home[`${name}.range`] = figure.home[name].slice(); else home[`${name}.autorange`] = true;
    });
    button.classList.add("hidden");
    Plotly.relayout(figure, home);
  };
}

function draw(id, traces, made) {
  at(id).classList.remove("hidden");
  at(id).home = { xaxis: made.xaxis && made.xaxis.range && made.xaxis.range.slice(), yaxis: made.yaxis && made.yaxis.range && made.yaxis.range.slice() };
  if (cursorOf[id]) made.shapes = cursor(id);
  // Plotly keeps the margins of a colour bar that changed its side: such a figure is made anew
  const side = narrow() ? "narrow" : "wide";
  if (at(id).dataset.side !== side) { Plotly.purge(at(id)); at(id).dataset.side = side; }
  wrap(made, at(id).clientWidth);
  at(id).drawn = Plotly.react(at(id), traces, made, config);
  followZoom(at(id), made);
  if (nodeOf[id]) {
    at(id).removeAllListeners("plotly_click");
    at(id).on("plotly_click", (event) => {
      const node = nodeOf[id](event.points[0]);
      if (node !== null) pick(node);
    });
  }
}

// A sentence instead of a figure without marks.
function leaveOut(ids, note, why) {
  ids.forEach((id) => { Plotly.purge(at(id)); at(id).dataset.side = ""; at(id).classList.add("hidden"); });
  at(note).textContent = why;
  at(note).closest(".pair")?.querySelectorAll(".js-plotly-plot:not(.hidden)").forEach((one) => Plotly.Plots.resize(one)); // it has the row to itself
}

// Steps of 1, 2, 5, 10, 20, 50, ... nodes, a dozen ticks at most.
function ticks(count) {
  let step = 1;
  for (let power = 1; count / step > 12; power *= 10) step = [2, 5, 10].map((digit) => digit * power).find((one) => count / one <= 12) || 10 * power;
  return { tick0: 0, dtick: step, tickformat: "d" };
}
// A colour for each node: the chosen one stands out.
const nodeColours = (count, fill) => Array.from({ length: count }, (_, k) => (chosen.node === null || chosen.node === k ? fill : faded(fill, 0.3)));
const nodeAxis = (count) => axis("node", { ...ticks(count), range: [-0.7, count - 0.3], showgrid: false });

// Ticks of a logarithmic axis, with plain labels: the values given, else 1, 2, 5, 10, ...
function logTicks(given = [], digits = [1, 2, 5]) {
  const values = [...given];
  if (!values.length) for (let power = -4; power < 7; power++) digits.forEach((digit) => values.push(Number(`${digit}e${power}`)));
  return { type: "log", tickvals: values, ticktext: values.map(String) };
}
