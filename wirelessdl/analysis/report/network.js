// Figures of links and of time: map, heat maps, mixing, timeline, channel.

const shades = 12, mapped = { frame: 0, payload: -1, timer: null }; // payload: of the frame, -1 for all

// Colours of a quantity over all frames: ends of its scale, and the shade of a value.
function scaleOf(map, what) {
  const packed = map[what];
  if (!packed.ends) {
    const known = unpack(packed).filter(Number.isFinite).sort();
    // a few outliers must not compress the scale
    const low = known.length ? known[Math.floor(0.005 * (known.length - 1))] : 0;
    const high = known.length ? known[Math.ceil(0.995 * (known.length - 1))] : 1;
    packed.ends = what === "epsilon" ? [0, high || 1] : [low, high > low ? high : low + 1];
  }
  return packed.ends;
}

function drawMap() {
  const run = current(), map = run.map, frames = map.rounds.length;
  mapped.frame = Math.min(mapped.frame, frames - 1);
  at("round").max = frames - 1;
  at("round").value = mapped.frame;
  at("round-label").textContent = `round ${map.rounds[mapped.frame]}, ${map.time[mapped.frame].toPrecision(4)} s`;
  const f = mapped.frame, nodes = run.nodes, links = map.tx.length;
  const place = (packed) => { const all = unpack(packed), row = packed.shape[0] > 1 ? f : 0; return all.subarray(row * nodes, (row + 1) * nodes); };
  const x = place(map.x), y = place(map.y), height = map.height ? place(map.height) : null;
  const state = unpack(map.state).subarray(f * nodes, (f + 1) * nodes);
  const told = run.heat && run.heat.accounted && run.heat.private, what = told ? chosen.colour : "gain", values = unpack(map[what]).subarray(f * links, (f + 1) * links), [low, high] = scaleOf(map, what);
  const lines = Array.from({ length: shades }, () => ({ x: [], y: [] })), hover = { x: [], y: [], text: [] };
  const hubs = map.hubs ? map.hubs[f] : null, part = onePayload(map, f, nodes);
  const used = part ? part.links : hubs ? memberLinks(hubs.turns, nodes) : null, own = { x: [], y: [] };
  stepLabel(part);
  for (let n = 0; n < links; n++) {
    const tx = map.tx[n], rx = map.rx[n], value = values[n];
    if (!Number.isFinite(value) || state[tx] < 2 || (used && !used.has(tx * nodes + rx))) continue;
    const shade = Math.min(shades - 1, Math.max(0, Math.floor(shades * (value - low) / (high - low))));
    if (part && !part.senders.has(tx)) continue;
    const reach = part && part.links ? 1 : 0.5, middle = [x[tx] + reach * (x[rx] - x[tx]), y[tx] + reach * (y[rx] - y[tx])];
    lines[shade].x.push(x[tx], middle[0], null);
    lines[shade].y.push(y[tx], middle[1], null);
    if (chosen.node === tx || chosen.node === rx) { own.x.push(x[tx], middle[0], null); own.y.push(y[tx], middle[1], null); }
    if (links <= 600) {
      hover.x.push((x[tx] + middle[0]) / 2); hover.y.push((y[tx] + middle[1]) / 2);
      hover.text.push(`${tx} to ${rx}: ` + (what === "gain" ? `${value.toFixed(1)} dB` : `epsilon ${value.toPrecision(3)}`));
    }
  }
  const traces = lines.map((part, n) => ({
    type: "scatter", mode: "lines", x: part.x, y: part.y, hoverinfo: "skip",
    line: { color: shadeColour((n + 0.5) / shades), width: links > 600 ? 0.8 : part ? 2.2 : 1.4 },
    opacity: chosen.node === null ? 1 : 0.25,
  }));
  if (own.x.length) traces.push({ type: "scatter", mode: "lines", x: own.x, y: own.y, hoverinfo: "skip", line: { color: colour("s1"), width: 2.4 } });
  // Plotly prefers the smaller of two marks under the pointer: larger than a node, so that a click reaches the node
  traces.push({ type: "scatter", mode: "markers", x: hover.x, y: hover.y, text: hover.text, hoverinfo: "text", marker: { size: 18, opacity: 0 } });
  const looks = [["down", "x-thin", colour("soft")], ["silent", "circle-open", colour("soft")], ["on air", "circle", colour("ink")]];
  const named = nodes <= 60, across = spread(map, "x"), up = spread(map, "y");
  const size = Array.from({ length: nodes }, (_, k) => (nodes > 60 ? 6 : 9) * (height ? 0.75 + 0.9 * aloft(map, height[k]) : 1));
  const rings = hubs ? hubRings(hubs.turns, x, y, size) : null, covered = [...size];
  if (rings) { rings.customdata.forEach((hub, n) => { covered[hub] = rings.marker.size[n]; }); traces.push(rings); }
  const sides = named ? labelSides(x, y, size, covered, across, up) : [];
  const halo = [1, 1, 2, 3].map((blur) => `0 0 ${blur}px ${colour("paper")}`).join(", "); // names stay legible on lines
  looks.forEach(([word, symbol, fill], n) => {
    const shown = (k) => (part && state[k] === 2 && !part.senders.has(k) ? 1 : state[k]); // of one payload: the others wait
    const who = [...state.keys()].filter((k) => shown(k) === n);
    traces.push({
      type: "scatter", mode: named ? "markers+text" : "markers", x: who.map((k) => x[k]), y: who.map((k) => y[k]),
      text: who.map(String), textposition: named ? who.map((k) => sides[k]) : "top right", textfont: { size: 10, color: colour("ink"), shadow: halo }, name: word, cliponaxis: false,
      customdata: who.map((k) => (height ? `, ${height[k].toFixed(0)} m high` : "")), hovertemplate: `node %{text}, ${word}%{customdata}<extra></extra>`,
      marker: { symbol, opacity: 1, size: who.map((k) => size[k]), color: who.map((k) => (k === chosen.node ? colour("s1") : fill)), line: { width: n === 2 ? 1 : 2, color: n === 2 ? colour("paper") : who.map((k) => (k === chosen.node ? colour("s1") : fill)) } },
    });
  });
  const unit = what === "gain" ? "gain in dB" : "one-slot epsilon";
  if (links) {
    traces.push({ // carries the colour bar
      type: "scatter", mode: "markers", x: [null], y: [null], hoverinfo: "skip",
      marker: { color: [low], cmin: low, cmax: high, colorscale: rampScale(), showscale: true, colorbar: bar(unit) },
    });
  }
  const made = layout("", {
    uirevision: chosen.run, xaxis: axis("x in m", { range: across }),
    yaxis: axis("y in m", { range: up, scaleanchor: "x" }),
    shapes: map.outlines.map((corners) => ({
      type: "path", layer: "below", path: `M${corners.map((place) => place.join(",")).join("L")}Z`, fillcolor: faded(colour("soft"), 0.16), line: { width: 0 },
    })),
  });
  if (narrow()) made.margin.b += 40;
  at("none-map").textContent = links ? "" : "No links were traced.";
  const higher = height && map.height.most ? `Higher nodes are drawn larger: ${map.height.most.map((v) => v.toFixed(0)).join(" to ")} m.` : "";
  at("note-map").textContent = [higher, part ? part.words : hubs ? hubWords(hubs) : ""].filter(Boolean).join(" ");
  draw("fig-map", traces, made);
  drawLearned(map.rounds[f]);
  showCard();
}

// Payloads of a frame where nodes send one after another: of a hub's turn collection and broadcast, else turns.
function payloadsOf(map, f, nodes) {
  if (map.hubs) return map.hubs[f].turns.flatMap(({ hub, members, failed }) => [
    { senders: new Set(members), links: new Set(members.map((node) => node * nodes + hub)), words: `${members.length} member${members.length === 1 ? "" : "s"} to hub ${hub}, at once.` },
    ...(failed ? [] : [{ senders: new Set([hub]), links: new Set(members.map((node) => hub * nodes + node)), words: `Hub ${hub} sends the mean back.` }]),
  ]);
  if (!map.turn) return [];
  const turn = unpack(map.turn).subarray(f * nodes, (f + 1) * nodes), found = new Map();
  turn.forEach((one, node) => { if (one !== 65535) found.set(one, [...(found.get(one) || []), node]); });
  return [...found.keys()].sort((a, b) => a - b).map((one) => {
    const who = found.get(one);
    return { senders: new Set(who), links: null, words: `Turn ${one + 1}: ${who.length > 8 ? `${who.length} nodes send` : `node${who.length > 1 ? "s" : ""} ${who.join(", ")} send${who.length > 1 ? "" : "s"}`}.` };
  });
}
function onePayload(map, f, nodes) {
  const found = payloadsOf(map, f, nodes);
  mapped.payloads = found.length;
  mapped.payload = Math.min(mapped.payload, found.length - 1);
  return mapped.payload < 0 ? null : found[mapped.payload];
}
function stepLabel(part) {
  at("turns").classList.toggle("hidden", mapped.payloads < 2);
  at("turn-label").textContent = part ? `payload ${mapped.payload + 1} of ${mapped.payloads}` : `all ${mapped.payloads} payloads`;
}
function step(by) { // all, first, ..., last, all
  const count = mapped.payloads + 1;
  mapped.payload = ((mapped.payload + 1 + by + count) % count) - 1;
  drawMap();
}

// A frame of the map; every chart over rounds follows, and the timeline turns to it.
function showFrame(f) {
  mapped.frame = f;
  drawMap();
  placeCursor();
  const t = current().timeline, k = t.rounds.indexOf(current().map.rounds[mapped.frame]);
  if (k >= 0 && (k < timeline.first || k >= timeline.first + Math.min(chosen.span, t.rounds.length))) { timeline.first = k; drawTimeline(); }
}

// One node stands out everywhere; chosen again, none does.
function pick(node) {
  chosen.node = node === chosen.node ? null : node;
  air.links = chosen.node === null ? null : typical(current().map, chosen.node);
  drawAll(true);
  drawAccuracy();
}

function showCard() {
  const card = at("node-card"), node = chosen.node, run = current();
  card.classList.toggle("hidden", node === null);
  if (node === null) return;
  const learned = run.learned, row = learned.rounds.length - 1, said = [];
  if (row >= 0) said.push(`test accuracy ${(100 * unpack(learned.accuracy)[row * run.nodes + node]).toFixed(1)}% at the end`);
  const total = run.totals.accountants[0];
  if (total && total.epsilon[node] !== null) said.push(`total epsilon ${total.epsilon[node].toPrecision(3)} by ${total.name}`);
  const [unit, factor] = energyUnit();
  if (run.energy[node] !== null) said.push(`${(factor * run.energy[node]).toPrecision(3)} ${unit}`);
  const turns = run.map.hubs ? run.map.hubs.reduce((sum, one) => sum + one.turns.filter(({ hub }) => hub === node).length, 0) : 0;
  if (turns) said.push(`hub in ${turns} turn${turns === 1 ? "" : "s"}`);
  const close = document.createElement("button"), name = document.createElement("b");
  close.type = "button"; close.textContent = "×"; close.setAttribute("aria-label", "let go of the node");
  close.onclick = () => pick(node);
  name.textContent = `node ${node}`;
  card.replaceChildren(close, name, `: ${said.join(", ")}.`);
}
nodeOf["fig-map"] = ({ data, text, customdata }) => (data.name === "hub" ? customdata : ["down", "silent", "on air"].includes(data.name) ? Number(text) : null);

// Both directions between hubs and their members, as tx * nodes + rx.
function memberLinks(turns, nodes) {
  return new Set(turns.flatMap(({ hub, members }) => members.flatMap((node) => [hub * nodes + node, node * nodes + hub])));
}

// How many turns each hub had, in order of its first one.
function turnsOf(turns) {
  const count = new Map();
  turns.forEach(({ hub }) => count.set(hub, (count.get(hub) || 0) + 1));
  return [...count];
}

function hubRings(turns, x, y, size) {
  const found = turnsOf(turns);
  return {
    type: "scatter", mode: "markers", name: "hub", x: found.map(([hub]) => x[hub]), y: found.map(([hub]) => y[hub]), cliponaxis: false,
    customdata: found.map(([hub]) => hub), text: found.map(([hub, count]) => `hub ${hub}, ${count} turn${count > 1 ? "s" : ""}`), hoverinfo: "text",
    marker: { symbol: "circle-open", color: colour("s1"), size: found.map(([hub, count]) => size[hub] + 5 + 4 * Math.min(count, 5)), line: { width: 2 } },
  };
}

function hubWords({ turns, disagreement, uncollected }) {
  const found = turnsOf(turns), failed = turns.filter((turn) => turn.failed).length;
  const listed = found.slice(0, 12).map(([hub, count]) => (count > 1 ? `${hub} (${count}×)` : hub)).join(", ") + (found.length > 12 ? ` and ${found.length - 12} more` : "");
  return [
    `${turns.length} turn${turns.length === 1 ? "" : "s"}${turns.length ? ` of hubs ${listed}` : ""}`,
    disagreement === null ? "" : `disagreement ${disagreement.toPrecision(2)}`,
    uncollected ? `${uncollected} node${uncollected === 1 ? "" : "s"} not collected` : "",
    failed ? `${failed} hub${failed > 1 ? "s" : ""} failed after collecting` : "",
  ].filter(Boolean).join("; ") + ".";
}

// Where the name of each node stands: beside it where neither a node nor the name of another one is, top right if it can.
function labelSides(x, y, size, covered, across, up) {
  const box = at("fig-map"), wideBar = narrow() ? 0 : 100; // that stands beside the map
  const scale = Math.min((box.clientWidth - 70 - wideBar) / (across[1] - across[0]), (box.clientHeight - 58) / (up[1] - up[0]));
  const px = Array.from(x, (v) => (v - across[0]) * scale), py = Array.from(y, (v) => (up[1] - v) * scale);
  const taken = px.map((left, k) => [left - covered[k] / 2, py[k] - covered[k] / 2, left + covered[k] / 2, py[k] + covered[k] / 2]);
  const shared = ([a, b, c, d], [e, f, g, h]) => Math.max(0, Math.min(c, g) - Math.max(a, e)) * Math.max(0, Math.min(d, h) - Math.max(b, f));
  return px.map((_, k) => {
    const wide = widthOf(String(k), 10), off = size[k] / 2 + 3;
    let best = { cost: Infinity };
    for (const [side, right, down] of [["top right", 1, -1], ["top left", -1, -1], ["bottom right", 1, 1], ["bottom left", -1, 1],
      ["middle right", 1, 0], ["middle left", -1, 0], ["top center", 0, -1], ["bottom center", 0, 1]]) {
      const mid = [px[k] + right * (off + wide / 2), py[k] + down * (off + 5)];
      const place = [mid[0] - wide / 2 - 2, mid[1] - 6, mid[0] + wide / 2 + 2, mid[1] + 6];
      const cost = taken.reduce((sum, one, n) => (n === k ? sum : sum + shared(place, one)), 0);
      if (cost < best.cost) best = { cost, side, place };
    }
    taken.push(best.place);
    return best.side;
  });
}

// Height of a node between the lowest and the highest of the run, 0 to 1: higher nodes are drawn larger.
function aloft(map, height) {
  const packed = map.height;
  if (!packed.most) packed.most = unpack(packed).reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
  return (height - packed.most[0]) / (packed.most[1] - packed.most[0] || 1);
}

// Beside the map: test accuracy of each node at the last evaluation up to the round shown.
function drawLearned(round) {
  const learned = current().learned, nodes = current().nodes;
  if (!learned.rounds.length) { leaveOut(["fig-learned"], "none-learned", "No evaluation yet."); return; }
  const row = Math.max(0, learned.rounds.findLastIndex((r) => r <= round)), values = unpack(learned.accuracy);
  const accuracy = Array.from(values.subarray(row * nodes, (row + 1) * nodes)), node = accuracy.map((_, n) => n);
  at("none-learned").textContent = "";
  if (!learned.ends) {
    const known = values.filter(Number.isFinite), low = Math.min(...known), high = Math.max(...known), room = 0.05 * (high - low) + 0.005;
    learned.ends = [Math.max(0, low - room), Math.min(1, high + room)]; // of the whole run: dots move, the axis stays
  }
  draw("fig-learned", [{
    type: "scatter", mode: "markers", x: accuracy, y: node, marker: { color: nodeColours(nodes, colour("payload")), size: nodes > 60 ? 5 : 9 }, hovertemplate: "node %{y}: %{x:.1%}<extra></extra>",
  }], layout(`Test accuracy of each node after round ${learned.rounds[row]}`, {
    xaxis: axis("", { range: learned.ends, tickformat: ".2~%" }),
    yaxis: axis("node", { ...ticks(nodes), range: [nodes - 0.3, -0.7], showgrid: nodes <= 60 }),
  }));
}

// Ends of an axis that hold all places of the run, so that the map stays still.
function spread(map, name) {
  const packed = map[name];
  if (!packed.ends) {
    const values = unpack(packed);
    let low = Infinity, high = -Infinity;
    values.forEach((v) => { low = Math.min(low, v); high = Math.max(high, v); });
    const room = 0.07 * (high - low) + 1;
    packed.ends = [low - room, high + room];
  }
  return packed.ends;
}

function play(on) {
  clearInterval(mapped.timer);
  mapped.timer = null;
  at("play").textContent = on ? "❚❚" : "▶";
  at("play").setAttribute("aria-label", on ? "pause" : "play");
  if (!on) return;
  const frames = current().map.rounds.length, stride = Math.max(1, Math.round(frames / 150));
  if (mapped.frame >= frames - 1) mapped.frame = 0;
  mapped.timer = setInterval(() => {
    showFrame(Math.min(mapped.frame + stride, frames - 1));
    if (mapped.frame >= frames - 1) play(false);
  }, 100 / Number(at("speed").value));
}

// The chosen node's row of a figure, and its column where nodes are on both axes.
function frames(axes, width = 1) {
  if (chosen.node === null) return [];
  const from = width * Math.floor(chosen.node / width) - width / 2;
  return axes.map((name) => {
    const other = name === "x" ? "y" : "x";
    return { type: "rect", [`${name}0`]: from, [`${name}1`]: from + width, [`${other}ref`]: `${other} domain`, [`${other}0`]: 0, [`${other}1`]: 1, line: { color: colour("s1"), width: 2 } };
  });
}

function square(packed, width, title, extra) {
  const z = rows(packed), ends = z.map((_, n) => n * width);
  return [[Object.assign({
    type: "heatmap", z, x: ends, y: ends, colorscale: rampScale(), colorbar: bar(title), hoverongaps: false, xgap: z.length > 60 ? 0 : 1, ygap: z.length > 60 ? 0 : 1,
    hovertemplate: "%{x} to %{y}: %{z:.3g}<extra></extra>",
  }, extra)], { shapes: frames(["x", "y"], width), xaxis: axis("sender", { ...ticks(z.length * width), showgrid: false, constrain: "domain" }), yaxis: axis("receiver", { ...ticks(z.length * width), showgrid: false, autorange: "reversed", scaleanchor: "x", constrain: "domain" }) }];
}

function squareLayout(title, axes) {
  const made = layout(title, axes);
  if (narrow()) made.margin.b += 44;
  return made;
}

function drawHeat() {
  const heat = current().heat;
  const told = Boolean(heat && heat.accounted && heat.private);
  at("heat").classList.toggle("hidden", !told);
  document.querySelector('[data-switch="colour"]').classList.toggle("hidden", !told);
  if (!heat) { leaveOut(["fig-heat"], "none-heat", "No links were traced."); return; }
  if (!heat.accounted) { leaveOut(["fig-heat"], "none-heat", "Links are not accounted for: pairs share noise, or nodes send on what they received (mixing passes, hubs)."); return; }
  if (!heat.private) { leaveOut(["fig-heat"], "none-heat", "No privacy noise: the epsilon of every link is infinite."); return; }
  at("fig-heat").classList.remove("hidden");
  const titles = { largest: "Largest over the run", mean: "Mean over the rounds", last: `Round ${heat.last_round}` };
  const [traces, axes] = square(heat[chosen.heat], heat.width, "epsilon", { zmin: 0 });
  at("none-heat").textContent = "";
  draw("fig-heat", traces, squareLayout(titles[chosen.heat], axes));
}

function drawMixing() {
  const mixing = current().mixing;
  if (!mixing) { leaveOut(["fig-weight", "fig-pi", "fig-gap"], "none-mixing", "No links were traced."); return; }
  at("none-mixing").textContent = "";
  const [traces, axes] = square(mixing.weight, mixing.width, "weight", { zmin: 0 });
  draw("fig-weight", traces, squareLayout("Mean mixing weight", axes));
  const spread = mixing.pi ? mixing.pi.map((v) => v * mixing.pi.length) : [];
  at("none-pi").textContent = "";
  if (spread.length && alike(spread, 0.03)) leaveOut(["fig-pi"], "none-pi", "Every node has the same weight in the network average, within 3%.");
  else if (mixing.pi) {
    const node = mixing.pi.map((_, n) => n);
    draw("fig-pi", [{ type: "bar", x: node, y: spread, marker: { color: nodeColours(node.length, colour("payload")) }, hovertemplate: "node %{x}: %{y:.3f}<extra></extra>" }],
      layout("Weight in the network average, K π", { bargap: 0.25, xaxis: nodeAxis(node.length), yaxis: axis("") }));
  } else at("fig-pi").classList.add("hidden");
  if (mixing.gap.round.length) {
    const none = mixing.gap.value.filter((value) => value < 1e-9).length;
    at("note-gap").textContent = none < 0.05 * mixing.gap.value.length ? "" : none === mixing.gap.value.length
      ? "The gap is 0 in every round: in no round can every node be reached from every other, so models approach consensus only over several rounds."
      : `The gap is 0 in ${Math.round(100 * none / mixing.gap.value.length)}% of the rounds: in them some node is down, silent or out of reach, and keeps its model.`;
    draw("fig-gap", [{ type: "scatter", mode: mixing.gap.round.length > 1 ? "lines" : "markers", x: mixing.gap.round, y: mixing.gap.value, line: { color: colour("payload"), width: 1.2 }, hovertemplate: "round %{x}: %{y:.3g}<extra></extra>" }],
      layout("Spectral gap", { xaxis: axis("round"), yaxis: axis("", { rangemode: "tozero" }) }));
  } else at("fig-gap").classList.add("hidden");
}

// Every bar and its times come from the page's data: kind, node, seconds after its round opened, seconds long.
const timeline = { first: 0 };
function drawTimeline() {
  const run = current(), t = run.timeline, nodes = run.nodes, count = t.rounds.length;
  const span = Math.min(chosen.span, count);
  timeline.first = Math.max(0, Math.min(timeline.first, count - span));
  const kind = unpack(t.kind), node = unpack(t.node), start = unpack(t.start), length = unpack(t.length);
  const begin = t.opened[timeline.first], ms = (s) => 1000 * (s - begin);
  const least = span === 1 ? 0 : 0.002 * (t.closed[timeline.first + span - 1] - begin); // what is short stays visible
  const parts = t.kinds.map(() => ({ x: [], y: [] }));
  for (let r = timeline.first; r < timeline.first + span; r++) {
    for (let n = t.first[t.pattern[r]]; n < t.first[t.pattern[r] + 1]; n++) {
      const from = t.opened[r] + start[n], part = parts[kind[n]], more = Math.max(0, least - length[n]), pilot = t.kinds[kind[n]] === "pilot";
      part.x.push(ms(from - (pilot ? more : 0)), ms(from + length[n] + (pilot ? 0 : more)), null); // pilots grow away from their payload
      part.y.push(node[n], node[n], null);
    }
  }
  const height = Math.min(620, Math.max(240, 120 + 15 * nodes));
  at("fig-timeline").style.height = height + "px";
  const thick = Math.max(1.5, Math.min(16, 0.72 * (height - 120) / nodes));
  const traces = parts.map(({ x, y }, k) => ({
    type: "scatter", mode: "lines", x, y, name: t.kinds[k], line: { color: colour(t.kinds[k]), width: thick, simplify: false }, hovertemplate: `node %{y}, ${t.kinds[k]}, %{x:.4g} ms<extra></extra>`,
  })).filter(({ x }) => x.length);
  const first = t.rounds[timeline.first], last = t.rounds[timeline.first + span - 1];
  at("span-label").textContent = span > 1 ? `rounds ${first} to ${last}` : `round ${first}`;
  const made = layout("", {
    shapes: frames(["y"]), xaxis: axis(`ms after round ${first} opened`), yaxis: axis("node", { ...ticks(nodes), range: [nodes - 0.3, -0.7], showgrid: false }), showlegend: true,
    legend: { orientation: "h", x: 0, y: 1.01, yanchor: "bottom", itemsizing: "constant", font: { size: 11 } },
  });
  made.margin.t = 34;
  draw("fig-timeline", traces, made);
}

const air = { links: null };
function drawChannel() {
  const map = current().map, links = map.tx.length;
  at("chosen-links").replaceChildren();
  if (!links) { leaveOut(["fig-channel"], "none-channel", "No links were traced."); return; }
  at("none-channel").textContent = "";
  if (air.links === null) air.links = typical(map);
  const gain = unpack(map.gain);
  const traces = air.links.map((n, k) => ({
    type: "scatter", mode: map.time.length > 1 ? "lines" : "markers", name: `${map.tx[n]} to ${map.rx[n]}`, x: map.time, y: map.time.map((_, f) => { const v = gain[f * links + n]; return Number.isFinite(v) ? v : null; }),
    line: { color: series(k), width: 1.3, dash: dashes[k % 6] }, customdata: map.rounds, hovertemplate: "round %{customdata}: %{y:.1f} dB<extra>%{fullData.name}</extra>",
  }));
  const made = layout("", { xaxis: axis("simulated time in s"), yaxis: axis("gain in dB"), showlegend: true });
  made.margin.t = 34;
  draw("fig-channel", traces, made);
  air.links.forEach((n, k) => {
    const chip = document.createElement("button");
    chip.type = "button"; chip.className = "chip"; chip.textContent = `${map.tx[n]} to ${map.rx[n]} ×`;
    chip.setAttribute("aria-label", `remove ${map.tx[n]} to ${map.rx[n]}`);
    chip.onclick = () => { if (air.links.length > 1) { air.links.splice(k, 1); drawChannel(); } };
    at("chosen-links").append(chip);
  });
}

// The strongest link by its mean gain, the middle one and the weakest; of one node, if named.
function typical(map, node = null) {
  const gain = unpack(map.gain), links = map.tx.length, frames = map.rounds.length;
  const mean = map.tx.map((tx, n) => {
    if (node !== null && tx !== node) return -Infinity;
    let sum = 0, count = 0;
    for (let f = 0; f < frames; f++) { const v = gain[f * links + n]; if (Number.isFinite(v)) { sum += v; count++; } }
    return count ? sum / count : -Infinity;
  });
  const all = mean.map((_, n) => n).sort((a, b) => mean[b] - mean[a]), own = all.filter((n) => mean[n] > -Infinity);
  const order = own.length ? own : all;
  return [...new Set([order[0], order[Math.floor(order.length / 2)], order[order.length - 1]])];
}

function listLinks() {
  const map = current().map, fill = (select, values) => {
    const before = select.value;
    select.replaceChildren(...values.map((v) => new Option(v, v)));
    if (values.map(String).includes(before)) select.value = before;
  };
  const unique = (values) => [...new Set(values)].sort((a, b) => a - b);
  fill(at("from"), unique(map.tx));
  fill(at("to"), unique(map.rx.filter((_, n) => map.tx[n] === Number(at("from").value))));
}

drawers.push([drawMap, true], [drawHeat, true], [drawMixing, true], [drawTimeline, true], [() => { listLinks(); drawChannel(); }, true]);
