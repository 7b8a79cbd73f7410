// A study: table of cells, families of results, learning curves in small multiples. Texts of the study stay text.

const cells = page.cells, own = cells.filter((cell) => cell.baseline === null);
const asNumber = (value) => (value === "inf" ? Infinity : value === "-inf" ? -Infinity : value);
const isNumber = (value) => typeof value === "number" && !Number.isNaN(value);
const lastPart = (key) => key.slice(key.lastIndexOf(".") + 1);
const marks = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x"];
const mostPanels = 24;

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

// --- numbers as texts

const isShare = (name) => name.startsWith("accuracy");
const shownValue = (value) => (value === null ? "" : String(value));
function digits(value, name) {
  if (value === null || value === undefined) return "";
  if (!Number.isFinite(asNumber(value))) return String(value);
  return isShare(name) ? `${(100 * value).toFixed(1)}%` : Number(value.toPrecision(3)).toString();
}
function withInterval([mean, low, high], name) {
  const text = digits(mean, name);
  if (low === null || high === null || !text) return text;
  const half = (high - low) / 2;
  if (half <= 5e-4 * Math.abs(mean)) return text; // beyond the digits shown
  return `${text} ± ${isShare(name) ? (100 * half).toFixed(1) : Number(half.toPrecision(1))}`;
}

// --- the table

// one prefix for the column, that of its largest energy
const joules = Math.max(0, ...cells.map((cell) => (cell.stats.energy_j ? asNumber(cell.stats.energy_j[0]) : 0)).filter(Number.isFinite));
const [energyFactor, energyUnit] = joules >= 1e3 ? [1e-3, "kJ"] : joules >= 1 || joules === 0 ? [1, "J"] : joules >= 1e-3 ? [1e3, "mJ"] : [1e6, "µJ"];
const columns = { accuracy_mean: "accuracy", epsilon: "epsilon", time_s: "time in s", airtime_s: "on air in s", energy_j: `energy in ${energyUnit}` };
const scaled = (stats, name) => (name === "energy_j" ? stats.map((v) => (isNumber(v) ? v * energyFactor : v)) : stats);

// keys that are the same in all cells of a name: the name says them
const named = own.every((cell) => cell.name) && new Set(own.map((cell) => cell.name)).size > 1;
const free = page.varied.filter((key) => !named || new Set(own.map((cell) => `${cell.name}\n${cell.values[key]}`)).size > new Set(own.map((cell) => cell.name)).size);

const headings = [
  ...(cells.some((cell) => cell.baseline || cell.name)
    ? [{ title: "name", text: (cell) => cell.baseline || cell.name || "", sort: (cell) => cell.baseline || cell.name || "" }] : []),
  ...free.map((key) => ({ title: lastPart(key), whole: key, key: true, text: (cell) => shownValue(cell.values[key]), sort: (cell) => asNumber(cell.values[key]) })),
  { title: "runs", text: (cell) => (cell.finished === cell.planned ? `${cell.finished}` : `${cell.finished} of ${cell.planned}`), sort: (cell) => cell.finished },
  ...page.figures.filter(({ name }) => columns[name]).map(({ name, words }) => ({
    title: columns[name], whole: words, number: true, text: (cell) => withInterval(scaled(cell.stats[name], name), name), sort: (cell) => asNumber(cell.stats[name][0]),
  })),
];
if (page.reference) {
  headings.splice(headings.findIndex((one) => one.number) + 1, 0, {
    title: `points above ${page.reference}`, number: true,
    text: ({ difference: d }) => (!d || d.mean === null ? "" : points(d.mean) + (d.low === null ? "" : ` (${points(d.low)} to ${points(d.high)})`)),
    sort: ({ difference: d }) => (d ? d.mean : null),
  });
  at("paired-note").textContent = `Accuracy less that of ${page.reference} at the same seeds: mean and 95% interval of the paired differences.`;
}
if (cells.some((cell) => cell.adversary)) {
  headings.push({ title: "adversary", whole: "whom the epsilon holds against", text: (cell) => cell.adversary || "", sort: (cell) => cell.adversary || "" });
}
const points = (share) => `${share >= 0 ? "+" : "−"}${Math.abs(100 * share).toFixed(1)}`;
const order = { heading: null, down: false };
const opened = new Set();

function searchText(cell) {
  const pairs = page.varied.filter((key) => cell.values[key] !== null)
    .flatMap((key) => [`${key}=${cell.values[key]}`, `${lastPart(key)}=${cell.values[key]}`]);
  return [cell.cell, cell.baseline, cell.name, ...pairs, ...cell.runs.map((run) => run.status)].filter(Boolean).join(" ").toLowerCase();
}
const searched = new Map(cells.map((cell) => [cell, searchText(cell)]));
// a word with = must be a whole pair, others may be a part
const fits = (text, word) => (word.includes("=") ? ` ${text} `.includes(` ${word} `) : text.includes(word));

function compared(a, b) {
  const [x, y] = [order.heading.sort(a), order.heading.sort(b)];
  const none = (value) => value === null || value === undefined || value === "" || Number.isNaN(value);
  if (none(x) || none(y)) return none(x) - none(y); // what is not there comes last, either way
  const way = typeof x === "string" || typeof y === "string" ? String(x).localeCompare(String(y)) : x < y ? -1 : x > y ? 1 : 0;
  return order.down ? -way : way;
}

// On a narrow page the result comes first, then what varies.
const result = headings.find((one) => one.number);
const shownHeadings = () => (narrow() && result ? [result, ...headings.filter((one) => one !== result)] : headings);

function drawTable() {
  const head = at("table").querySelector("thead"), body = at("table").querySelector("tbody");
  const row = make("tr");
  row.append(make("th", ""));
  shownHeadings().forEach((heading) => {
    const cell = make("th", undefined, heading.number ? "number" : ""), button = make("button", heading.title, heading.key ? "sort key" : "sort");
    button.type = "button";
    if (heading.whole) button.title = heading.whole;
    const sorted = order.heading === heading;
    cell.setAttribute("aria-sort", sorted ? (order.down ? "descending" : "ascending") : "none");
    if (sorted) button.append(order.down ? " ↓" : " ↑");
    button.onclick = () => {
      order.down = sorted ? !order.down : Boolean(heading.number);
      order.heading = heading;
      drawTable();
    };
    cell.append(button);
    row.append(cell);
  });
  head.replaceChildren(row);
  const words = at("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const kept = cells.filter((cell) => words.every((word) => fits(searched.get(cell), word)));
  if (order.heading) kept.sort(compared);
  body.replaceChildren(...kept.flatMap((cell) => [tableRow(cell), ...(opened.has(cell) ? [runsRow(cell)] : [])]));
  at("matching").textContent = words.length ? `${kept.length} of ${cells.length} cells` : `${cells.length} cells`;
  at("none-cells").textContent = kept.length ? "" : "No cell fits the filter.";
}

function tableRow(cell) {
  const row = make("tr", undefined, cell.baseline ? "baseline" : ""), first = make("td"), button = make("button", opened.has(cell) ? "▾" : "▸", "open");
  button.type = "button";
  button.setAttribute("aria-expanded", opened.has(cell));
  button.setAttribute("aria-label", `runs of ${cell.label}`);
  button.onclick = () => { if (!opened.delete(cell)) opened.add(cell); drawTable(); };
  first.append(button);
  row.append(first, ...shownHeadings().map((heading) => make("td", heading.text(cell), heading.number ? "number" : "")));
  return row;
}

function runsRow(cell) {
  const row = make("tr", undefined, "of-cell"), inside = make("td"), list = make("ul", undefined, "runs");
  inside.colSpan = headings.length + 1;
  cell.runs.forEach((run) => {
    const line = make("li", `seed ${run.seed}, run ${run.run}: ${run.status}`);
    if (run.accuracy !== null) line.append(`, ${digits(run.accuracy, "accuracy")}`);
    if (run.epsilon !== null) line.append(`, epsilon ${digits(run.epsilon, "")}`);
    if (run.error) line.append(`, ${run.error}`);
    if (run.report) {
      const link = make("a", "report");
      link.href = run.report;
      line.append(" · ", link);
    } else if (run.command) line.append(" · ", make("span", run.command, "key"));
    list.append(line);
  });
  const said = page.varied.filter((key) => !free.includes(key)).map((key) => `${key} = ${shownValue(cell.values[key])}`);
  if (said.length) inside.append(make("p", said.join(", "), "fine"));
  inside.append(list);
  row.append(inside);
  return row;
}

// --- choices

function options(id, entries, value) {
  at(id).replaceChildren(...entries.map(([entry, text]) => {
    const option = make("option", text);
    option.value = entry;
    return option;
  }));
  at(id).value = entries.some(([entry]) => entry === value) ? value : entries[0][0];
}
const keys = [...(named ? ["name"] : []), ...page.keys];
const keyEntries = [["", "none"], ...keys.map((key) => [key, key])];
const valueOf = (cell, key) => (key === "" ? null : key === "name" ? cell.name : cell.values[key]);
const wordsOf = Object.fromEntries(page.figures.map(({ name, words }) => [name, words]));

// values of a key in the study's own cells: numbers by size, texts as they come
function valuesOf(key) {
  if (key === "") return [null];
  const found = [...new Set(own.map((cell) => valueOf(cell, key)))].filter((value) => value !== null);
  return found.every((value) => isNumber(asNumber(value))) ? found.sort((a, b) => asNumber(a) - asNumber(b)) : found;
}
// a number has its key's name, a text says by itself what it is
const labelOf = (key, value) => (typeof asNumber(value) === "string" && !/^\d/.test(value) ? value : `${lastPart(key)} ${value}`);

// --- panels

function panels(id, facet, legend, entries, drawOne) {
  const home = at(id), values = valuesOf(facet);
  home.querySelectorAll(".figure").forEach((figure) => figure.drawn.then(() => Plotly.purge(figure))); // Plotly may still draw it
  home.classList.toggle("one", values.length === 1);
  const made = values.slice(0, mostPanels).map((value, n) => {
    const box = make("div", undefined, "panel");
    if (facet !== "") box.append(make("h3", labelOf(facet, value)));
    const figure = make("div", undefined, "figure");
    figure.id = `${id}-${n}`;
    box.append(figure);
    return [box, figure.id, value];
  });
  home.replaceChildren(...made.map(([box]) => box));
  if (values.length > mostPanels) home.append(make("p", `${values.length - mostPanels} more panels are left out.`, "fine"));
  made.forEach(([box, figure, value]) => {
    const rows = drawOne(figure, value), title = facet === "" ? "" : plain(labelOf(facet, value));
    // the page's legend and heading stand outside of the figure: its picture has its own
    const picture = () => {
      const { data, layout: drawn } = at(figure), look = { font: { size: 13 }, x: 0, xref: "paper", yref: "container", y: 0.97 };
      return { data, layout: { ...drawn, showlegend: true, title: { text: title, ...look }, margin: { ...drawn.margin, t: 40 + 12 * (entries.length + 1) } } };
    };
    box.append(saveRow(figure, picture, () => asCsv([["cell", "x", "y", "low", "high"], ...rows])));
    followZoom(at(figure), at(figure).layout);
  });
  at(legend).replaceChildren(...entries.map(([text, n, look]) => {
    const entry = make("span", undefined, "entry"), swatch = make("span", undefined, `swatch ${look || ""}`);
    if (n !== null) swatch.style.color = series(n);
    entry.append(swatch, text);
    return entry;
  }));
}

// cells of one panel; a baseline without a value for the key is in every one
const inPanel = (some, facet, value) => some.filter((cell) => facet === "" || valueOf(cell, facet) === value
  || (cell.baseline !== null && cell.values[facet] === undefined) || (cell.baseline !== null && cell.values[facet] === null));

function seriesEntries(key, some) {
  const names = [...new Set(some.filter((cell) => cell.baseline !== null).map((cell) => cell.baseline))];
  const own = key !== "" ? valuesOf(key).map((value, n) => [labelOf(key, value), n, ""]) : names.length ? [[page.scenario, 0, ""]] : [];
  return [...own, ...names.map((name) => [name, null, "dotted"])];
}
// place of a cell among the series, -1 for a baseline that belongs to none
const placeOf = (cell, key, values) => (key === "" ? (cell.baseline === null ? 0 : -1) : values.indexOf(valueOf(cell, key)));
// what a line is in the legend of a picture
const nameOf = (cell, key) => plain([cell.baseline === null && key === "" ? page.scenario : cell.baseline, placeOf(cell, key, valuesOf(key)) < 0 || key === "" ? null : labelOf(key, valueOf(cell, key))].filter((one) => one !== null).join(", "));
const shade = (n) => (n < 0 ? colour("soft") : series(n));

// --- results

// values along an axis that cells were asked for, as in analysis/families/curves.py; none where results lie elsewhere
function swept(x, some) {
  const found = page.numeric.map((key) => some.filter((cell) => cell.baseline === null && xOf(cell, key) > 0 && xOf(cell, x) > 0 && Number.isFinite(xOf(cell, key) + xOf(cell, x))).map((cell) => [xOf(cell, key), xOf(cell, x)]));
  const pairs = found.find((one) => one.length && one.every(([asked, value]) => Math.abs(value / asked - 1) < 0.05)) || [];
  const values = [...new Set(pairs.map(([asked]) => asked))].sort((a, b) => a - b);
  return values.length > 1 && values.length <= 12 ? values : [];
}
const xOf = (cell, name) => asNumber(page.numeric.includes(name) ? cell.values[name] : (cell.stats[name] || [null])[0]);

function drawFamilies() {
  const x = at("family-x").value, y = at("family-y").value, key = at("family-series").value, facet = at("family-facet").value;
  const values = valuesOf(key), known = cells.filter((cell) => cell.stats[y] && isNumber(asNumber(cell.stats[y][0])));
  if (!known.length) { at("none-families").textContent = "No run is finished yet."; return; }
  const entries = seriesEntries(key, known), log = at("family-log").checked;
  if (known.some((cell) => cell.baseline === null && xOf(cell, x) === Infinity)) entries.push([`${x.startsWith("epsilon") ? "ε" : lastPart(x)} ∞`, null, "dashed"]);
  const every = known.flatMap((cell) => cell.stats[y].slice(0, 3)).filter((v) => isNumber(v));
  const margin = 0.06 * (Math.max(...every) - Math.min(...every)) || 0.05;
  const range = [Math.min(...every) - margin, Math.max(...every) + margin];
  // few seeds make wide intervals: the axis shows what an accuracy can be, not all of the interval
  if (isShare(y)) range[1] = Math.min(1, range[1]);
  if (isShare(y) && Math.min(...known.map((cell) => cell.stats[y][0])) >= 0) range[0] = Math.max(0, range[0]);
  panels("family-panels", facet, "family-legend", entries, (id, value) => {
    const traces = [], shapes = [], here = inPanel(known, facet, value), rows = [], across = new Map(); // baselines drawn as lines
    const groups = new Map();
    here.forEach((cell) => {
      const n = placeOf(cell, key, values), group = `${cell.baseline || ""}\n${n}`;
      if (!groups.has(group)) groups.set(group, { n, baseline: cell.baseline, cells: [] });
      groups.get(group).cells.push(cell);
    });
    groups.forEach(({ n, baseline, cells: some }) => {
      const placed = (cell) => Number.isFinite(xOf(cell, x)) && xOf(cell, x) !== null && (!(baseline !== null || log) || xOf(cell, x) > 0);
      let on = some.filter(placed).sort((a, b) => xOf(a, x) - xOf(b, x));
      if (baseline !== null && page.numeric.includes(x) && new Set(on.map((cell) => xOf(cell, x))).size < 2) on = [];
      some.filter((cell) => !on.includes(cell)).forEach((cell) => {
        const [mean, low, high] = cell.stats[y];
        rows.push([cell.label, xOf(cell, x) === Infinity ? "inf" : xOf(cell, x), mean, low, high]);
        shapes.push({ type: "line", name: nameOf(cell, key), showlegend: true, xref: "paper", x0: 0, x1: 1, y0: mean, y1: mean, line: { color: shade(n), width: 1.4, dash: baseline === null ? "dash" : "dot" } });
        if (baseline !== null) across.set(baseline, Math.max(mean, across.get(baseline) ?? -Infinity)); // above its highest line
        if (low !== null) shapes.push({ type: "rect", xref: "paper", x0: 0.985, x1: 1, y0: low, y1: high, fillcolor: faded(shade(n), 0.35), line: { width: 0 } });
      });
      if (!on.length) return;
      const stat = (cell) => cell.stats[y];
      rows.push(...on.map((cell) => [cell.label, xOf(cell, x), ...stat(cell).slice(0, 3)]));
      traces.push({
        name: nameOf(on[0], key),
        type: "scatter", mode: "lines+markers", x: on.map((cell) => xOf(cell, x)), y: on.map((cell) => stat(cell)[0]),
        error_y: { type: "data", symmetric: false, thickness: 1.2, width: 3, array: on.map((cell) => (stat(cell)[2] === null ? 0 : stat(cell)[2] - stat(cell)[0])), arrayminus: on.map((cell) => (stat(cell)[1] === null ? 0 : stat(cell)[0] - stat(cell)[1])) },
        line: { color: shade(n), width: 1.8, dash: baseline === null ? "solid" : "dot" }, marker: { size: 7, color: shade(n), symbol: marks[Math.max(n, 0) % marks.length] },
        text: on.map((cell) => `${plain(cell.label)}<br>${plain(wordsOf[y] || y)} ${withInterval(stat(cell), y)}`), hovertemplate: "%{text}<extra></extra>",
      });
    });
    const asked = swept(x, known), room = asked.length > 1 ? Math.min(...asked.slice(1).map((v, n) => v - asked[n])) / asked[asked.length - 1] : 0;
    const places = known.map((cell) => xOf(cell, x)).filter((v) => isNumber(v) && Number.isFinite(v));
    const near = Math.min(...places) < 0.35 * (Math.max(...places) - Math.min(...places)); // zero is near: show it
    const ticked = log ? logTicks(asked, narrow() && Math.max(...places) > 30 * Math.min(...places.filter((v) => v > 0)) ? [1] : [1, 2, 5]) : { rangemode: near ? "tozero" : "normal", ...(room > 0.06 ? { tickvals: asked, ticktext: asked.map(String) } : {}) };
    draw(id, traces.length ? traces : [{ type: "scatter", x: [], y: [] }], layout("", {
      shapes, annotations: [...across].map(([name, mean]) => nameOfLine(plain(name), mean)), xaxis: axis(plain(wordsOf[x] || x), ticked), yaxis: axis(plain(wordsOf[y] || y), { tickformat: isShare(y) ? ".2~%" : undefined, range }),
    }));
    return rows;
  });
}

// Accuracy of each cell less that of its reference at the same seeds.
function drawPaired() {
  const some = cells.filter(({ difference }) => difference && difference.mean !== null).slice(0, 60).reverse();
  at("paired").classList.toggle("hidden", !some.length);
  if (!some.length) return;
  at("fig-paired").style.height = `${110 + 26 * some.length}px`;
  const y = some.map((_, n) => n), apart = some.map(({ difference }) => 100 * difference.mean);
  const side = (name, sign) => some.map(({ difference: d }) => (d[name] === null ? 0 : 100 * sign * (d[name] - d.mean)));
  draw("fig-paired", [{
    type: "scatter", mode: "markers", x: apart, y, marker: { size: 8, color: series(0) }, name: "difference",
    error_x: { type: "data", symmetric: false, thickness: 1.4, width: 3, array: side("high", 1), arrayminus: side("low", -1) },
    text: some.map((cell) => `${plain(cell.label)}<br>${points(cell.difference.mean)} points, ${cell.difference.n} pairs`), hovertemplate: "%{text}<extra></extra>",
  }], layout("", {
    xaxis: axis(`points above ${plain(page.reference)}`, { zeroline: true, zerolinecolor: colour("soft") }),
    yaxis: axis("", { tickvals: y, ticktext: some.map((cell) => short(cell.label)), range: [-0.7, some.length - 0.3] }),
  }));
}

// --- learning curves

function drawCurves() {
  const against = at("curves-against").value, y = at("curves-y").value, key = at("curves-series").value, facet = at("curves-facet").value;
  const values = valuesOf(key), known = cells.filter((cell) => page.curves[cell.cell]);
  if (!known.length) { at("none-curves").textContent = "No learning curve yet."; return; }
  const every = known.flatMap((cell) => { const c = page.curves[cell.cell][y]; return [...c.mean, ...c.low, ...c.high]; }).filter(isNumber);
  const [least, most] = every.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
  const margin = 0.05 * (most - least) || 0.05, range = [least - margin, most + margin];
  if (y === "accuracy") {
    const means = known.flatMap((cell) => page.curves[cell.cell][y].mean).filter(isNumber);
    range[1] = Math.min(1, range[1]);
    if (means.every((v) => v >= 0)) range[0] = Math.max(0, range[0]);
  }
  const title = page.against.find((one) => one.name === against).words;
  const endless = (cell) => { const x = page.curves[cell.cell][against]; return x[x.length - 1] === null; };
  const entries = seriesEntries(key, known);
  if (against === "epsilon" && known.some((cell) => cell.baseline === null && endless(cell))) entries.push(["ε ∞", null, "dashed"]);
  panels("curves-panels", facet, "curves-legend", entries, (id, value) => {
    const traces = [], shapes = [], rows = [];
    inPanel(known, facet, value).forEach((cell) => {
      const n = placeOf(cell, key, values), curve = page.curves[cell.cell], x = curve[against], { mean, low, high } = curve[y];
      const still = cell.baseline !== null && against === "epsilon";
      rows.push(...mean.map((v, k) => [cell.label, endless(cell) && cell.baseline === null ? "inf" : x[k], v, low[k], high[k]]));
      if (endless(cell) || still) {
        const end = mean[mean.length - 1];
        shapes.push({ type: "line", name: nameOf(cell, key), showlegend: true, xref: "paper", x0: 0, x1: 1, y0: end, y1: end, line: { color: shade(n), width: 1.4, dash: cell.baseline === null ? "dash" : "dot" } });
        return;
      }
      const edge = { type: "scatter", mode: "lines", x, line: { width: 0 }, hoverinfo: "skip", showlegend: false };
      if (low.some((v) => v !== null)) traces.push({ ...edge, y: low }, { ...edge, y: high, fill: "tonexty", fillcolor: faded(shade(n), 0.18) });
      traces.push({
        name: nameOf(cell, key), type: "scatter", mode: x.length <= 60 ? "lines+markers" : "lines", x, y: mean, line: { color: shade(n), width: 1.8, dash: cell.baseline === null ? "solid" : "dot" },
        marker: { size: 5, color: shade(n), symbol: marks[Math.max(n, 0) % marks.length] }, customdata: curve.round,
        hovertemplate: `${plain(cell.label)}<br>round %{customdata}: %{y:${y === "accuracy" ? ".1%" : ".3g"}}<extra></extra>`,
      });
    });
    draw(id, traces.length ? traces : [{ type: "scatter", x: [], y: [] }], layout("", {
      shapes, xaxis: axis(plain(title), { rangemode: "tozero" }), yaxis: axis("", { tickformat: y === "accuracy" ? ".2~%" : undefined, range }),
    }));
    return rows;
  });
}

// --- start

function drawAll() { drawFamilies(); drawPaired(); drawCurves(); }

const xs = [...page.figures.map(({ name, words }) => [name, words]), ...page.keys.filter((key) => page.numeric.includes(key)).map((key) => [key, key])];
if (page.figures.length) {
  const someEpsilon = own.some((cell) => cell.stats.epsilon && Number.isFinite(asNumber(cell.stats.epsilon[0])) && cell.stats.epsilon[0] > 0);
  const ends = own.map((cell) => xOf(cell, "epsilon")).filter((v) => isNumber(v) && Number.isFinite(v));
  const apart = someEpsilon && Math.max(...ends) > 1.05 * Math.min(...ends); // runs that all promise the same have no place along it
  const firstX = apart ? "epsilon" : (xs.find(([name]) => page.numeric.includes(name) && free.includes(name)) || (someEpsilon ? ["epsilon"] : xs[0]))[0];
  options("family-x", xs, firstX);
  options("family-y", page.figures.map(({ name, words }) => [name, words]), "accuracy_mean");
  // values over a decade or more are read on a logarithmic axis
  const along = own.map((cell) => xOf(cell, firstX)).filter((v) => isNumber(v) && Number.isFinite(v) && v > 0);
  at("family-log").checked = along.length > 1 && Math.max(...along) >= 10 * Math.min(...along) && own.every((cell) => xOf(cell, firstX) !== 0);
  // one key varies along a curve, the next ones are curves and panels
  const telling = keys.filter((key) => key === "name" || free.includes(key));
  const rest = telling.filter((key) => key !== (telling.includes(firstX) ? firstX : page.keys[0]));
  options("family-series", keyEntries, rest[0] || "");
  options("family-facet", keyEntries, rest[1] || "");
  options("curves-against", page.against.map(({ name, words }) => [name, words]), "round");
  options("curves-series", keyEntries, telling[0] || "");
  options("curves-facet", keyEntries, telling[1] || "");
  ["family-x", "family-y", "family-series", "family-facet", "family-log"].forEach((id) => { at(id).onchange = drawFamilies; });
  ["curves-against", "curves-y", "curves-series", "curves-facet"].forEach((id) => { at(id).onchange = drawCurves; });
}
at("filter").oninput = drawTable;

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  at("theme").textContent = name === "dark" ? "light" : "dark";
}
const night = window.matchMedia("(prefers-color-scheme: dark)");
setTheme(night.matches ? "dark" : "light");
night.onchange = (event) => { setTheme(event.matches ? "dark" : "light"); if (page.figures.length) drawAll(); };
at("theme").onclick = () => { setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); if (page.figures.length) drawAll(); };
let side = narrow();
window.addEventListener("resize", () => { if (narrow() !== side) { side = narrow(); drawTable(); if (page.figures.length) drawAll(); } });
drawTable();
if (page.figures.length) drawAll();
else at("none-families").textContent = at("none-curves").textContent = "No run is finished yet.";
