// Curves over rounds, and one mark per node.

const axisOf = {
  round: { title: "round" }, time: { title: "simulated time in s" }, energy: { title: "energy used by all nodes in J" },
};

function line(n, x, y, more) {
  return Object.assign({
    type: "scatter", mode: "lines", x, y, name: short(page.runs[n].label),
    line: { color: series(n), width: 1.8, dash: dashes[n % 6] },
  }, more);
}

// Of runs that differ in seed alone: their mean and its 95% interval, where they have the same rounds.
function bands(curve, x) {
  return page.families.flatMap(({ runs, t }) => {
    const all = runs.map((n) => curve(page.runs[n])), rounds = String(all[0].round);
    if (all.some((one) => String(one.round) !== rounds)) return [];
    const mean = all[0].mean.map((_, k) => all.reduce((sum, one) => sum + one.mean[k], 0) / all.length);
    const half = mean.map((m, k) => t * Math.sqrt(all.reduce((sum, one) => sum + (one.mean[k] - m) ** 2, 0) / (all.length - 1) / all.length));
    const along = all[0][x].map((_, k) => all.reduce((sum, one) => sum + one[x][k], 0) / all.length), n = runs[0];
    const edge = { mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
    return [
      line(n, along, mean.map((m, k) => m - half[k]), edge),
      line(n, along, mean.map((m, k) => m + half[k]), { ...edge, fill: "tonexty", fillcolor: faded(colour("ink"), 0.14) }),
      line(n, along, mean, {
        name: `mean of ${runs.length} runs, 95% interval`, line: { color: colour("ink"), width: 2.4 }, customdata: all[0].round,
        hovertemplate: "mean, round %{customdata}: %{y:.1%}<extra></extra>",
      }),
    ];
  });
}

// Where the round of the map lies on an axis of curves.
function alongAxis(name) {
  const run = current(), all = run.learning.loss, shown = run.map.rounds[mapped.frame];
  const k = all.round.findLastIndex((round) => round <= shown);
  return k < 0 ? null : all[name][k];
}

// What the same nodes reach otherwise: lines across, each with its name at the left, where curves are low.
function baselineLines(made) {
  made.annotations = [];
  const found = [...page.beside].sort((a, b) => b.accuracy - a.accuracy);
  found.forEach(({ name, accuracy }, n) => {
    const above = n > 0 && found[n - 1].accuracy - accuracy < 0.05;
    made.annotations.push(nameOfLine(`${name} ${(100 * accuracy).toFixed(1)}%`, accuracy, above ? "top" : "bottom"));
  });
  return found.map(({ name, accuracy }, n) => ({
    type: "scatter", mode: "lines", x: [0, 1], xaxis: "x2", y: [accuracy, accuracy], name, hoverinfo: "skip",
    line: { color: colour("soft"), width: 1.4, dash: dashes[1 + (n % 5)] },
  }));
}

function drawAccuracy() {
  const x = chosen.against, traces = [];
  page.runs.forEach((run, n) => {
    const a = run.learning.accuracy, few = a[x].length <= 60;
    if (!several) {
      const edge = { mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
      traces.push(line(n, a[x], a.min, edge), line(n, a[x], a.max, { ...edge, fill: "tonexty", fillcolor: faded(series(0), 0.18) }));
    }
    traces.push(line(n, a[x], a.mean, {
      mode: few ? "lines+markers" : "lines", marker: { size: 5, symbol: symbols[n % 6], color: series(n) },
      customdata: a.round.map((round, k) => [round, a.min[k], a.max[k]]),
      hovertemplate: "round %{customdata[0]}: %{y:.1%}, nodes from %{customdata[1]:.1%} to %{customdata[2]:.1%}<extra></extra>",
    }));
  });
  traces.push(...bands((run) => run.learning.accuracy, x));
  const title = several ? "Test accuracy, mean of nodes" : "Mean of nodes; the band is from the worst node to the best";
  const made = layout(title, { xaxis: axis(axisOf[x].title), yaxis: axis("", { tickformat: ".2~%" }) });
  if (page.beside.length) {
    traces.push(...baselineLines(made));
    made.xaxis2 = { overlaying: "x", range: [0, 1], visible: false, fixedrange: true };
  }
  const own = chosen.node === null ? null : nodeCurve(chosen.node);
  at("node-curve").textContent = own ? `bold: node ${chosen.node}` : "";
  if (own) traces.push(line(chosen.run, own[x], own.mean, {
    line: { color: colour("s1"), width: 2.8 }, name: `node ${chosen.node}`, customdata: own.round,
    hovertemplate: `node ${chosen.node}, round %{customdata}: %{y:.1%}<extra></extra>`,
  }));
  draw("fig-accuracy", traces, several ? withLegend(made, page.runs.length + page.families.length + (own ? 1 : 0), "fig-accuracy") : made);
}

// Accuracy of one node along the axes of curves.
function nodeCurve(node) {
  const run = current(), learned = run.learned, all = run.learning.accuracy, values = unpack(learned.accuracy);
  const found = { round: [], time: [], energy: [], mean: [] };
  learned.rounds.forEach((round, row) => {
    const k = all.round.indexOf(round), value = values[row * run.nodes + node];
    if (k < 0 || !Number.isFinite(value)) return;
    ["round", "time", "energy"].forEach((name) => found[name].push(all[name][k]));
    found.mean.push(value);
  });
  return found;
}

function drawLoss() {
  const traces = page.runs.map((run, n) => line(n, run.learning.loss.round, run.learning.loss.mean, {
    customdata: run.learning.loss.round, hovertemplate: "round %{customdata}: %{y:.3g}<extra></extra>", line: { color: series(n), width: 1.2, dash: dashes[n % 6] },
  }));
  const made = layout("Mini-batch loss, mean of nodes (no epsilon covers it)", { xaxis: axis("round"), yaxis: axis("nat") });
  draw("fig-loss", traces, several ? withLegend(made, page.runs.length, "fig-loss") : made);
}

function drawTradeoff() {
  const known = page.runs.map((run, n) => [run.tradeoff, n]).filter(([t]) => t.epsilon.length);
  if (!known.length) {
    const none = page.runs.some((run) => run.learning.accuracy.mean.length);
    leaveOut(["fig-tradeoff"], "none-tradeoff", none ? "Epsilon is infinite: there is no privacy noise." : "No evaluation yet.");
    return;
  }
  const traces = known.map(([t, n]) => line(n, t.epsilon, t.accuracy, {
    mode: "lines+markers", customdata: t.round, hovertemplate: `round %{customdata}: epsilon %{x:.3g} against ${t.adversary}, %{y:.1%}<extra></extra>`,
    marker: { color: series(n), symbol: symbols[n % 6], size: t.epsilon.map((_, i) => (i === t.epsilon.length - 1 ? 10 : 4)) },
  }));
  const bound = known.some(([t]) => t.accountant === "running bound");
  const made = layout("Accuracy and guaranteed total epsilon", {
    xaxis: axis(bound ? "guaranteed total epsilon, running bound" : "guaranteed total epsilon, worst node", { rangemode: "tozero" }),
    yaxis: axis("", { tickformat: ".2~%" }),
  });
  draw("fig-tradeoff", traces, several ? withLegend(made, known.length, "fig-tradeoff") : made);
}

function drawTotals() {
  const totals = current().totals.accountants.filter((one) => one.epsilon.some((v) => v !== null));
  if (!totals.length) {
    leaveOut(["fig-totals"], "none-totals", current().totals.accountants.length ? "Totals are infinite: there is no privacy noise." : "No totals written yet.");
    return;
  }
  at("none-totals").textContent = "";
  if (totals.every((one) => alike(one.epsilon))) {
    leaveOut(["fig-totals"], "none-totals", "Every node has the same total epsilon: " + totals.map((one) => `${one.epsilon[0].toPrecision(3)} by ${one.name}`).join(", ") + ".");
    return;
  }
  const traces = totals.map((one, n) => ({
    type: "scatter", mode: "markers", name: one.name, x: one.epsilon.map((_, node) => node), y: one.epsilon,
    marker: { color: nodeColours(one.epsilon.length, series(n)), symbol: symbols[n % 6], size: one.epsilon.length > 60 ? 4 : 7 },
    hovertemplate: "node %{x}: epsilon %{y:.3g} by " + one.name + "<extra></extra>",
  }));
  const every = totals.flatMap((one) => one.epsilon.filter((v) => v !== null && v > 0));
  const wide = Math.max(...every) > 8 * Math.min(...every);
  const made = layout("Guaranteed total of each node, by accountant", {
    xaxis: nodeAxis(current().nodes),
    yaxis: axis("epsilon", wide ? logTicks() : { rangemode: "tozero" }),
  });
  made.margin.t += 26;
  made.showlegend = true;
  draw("fig-totals", traces, made);
}

function drawPower() {
  const { alpha, beta, power_dbm, budget_dbm } = current().power, node = alpha.map((_, n) => n), few = node.length <= 60;
  const share = (y, name, fill) => ({
    type: "bar", name, x: node, y, marker: { color: nodeColours(node.length, fill) },
    hovertemplate: "node %{x}: %{y:.3f}<extra>" + name + "</extra>",
  });
  at("none-split").textContent = "";
  if (alike(alpha) && alpha[0] > 0) {
    leaveOut(["fig-split"], "none-split", `Every node gives ${(100 * alpha[0]).toFixed(1)}% of its power to the model and ${(100 * beta[0]).toFixed(1)}% to privacy noise.`);
  } else {
    const made = layout("Share of power", {
      barmode: "stack", bargap: 0.25, xaxis: nodeAxis(node.length), yaxis: axis("", { range: [0, 1.02], dtick: 0.25 }),
    });
    made.margin.t += 26;
    made.showlegend = true;
    made.legend.traceorder = "normal";
    draw("fig-split", [share(alpha, "model, alpha", colour("payload")), share(beta, "noise, beta", colour("noise"))], made);
  }
  const budget = {
    type: "scatter", mode: "lines", x: node, y: budget_dbm, name: "budget",
    line: { color: colour("soft"), dash: "dash", width: 1.2, shape: "hvh" }, hovertemplate: "budget %{y:.4g} dBm<extra></extra>",
  };
  const radiated = layout("Power radiated in the payload", { xaxis: nodeAxis(node.length), yaxis: axis("dBm"), showlegend: true });
  radiated.margin.t += 26;
  draw("fig-radiated", [{
    type: "scatter", mode: "markers", name: "radiated", x: node, y: power_dbm, marker: { color: nodeColours(node.length, colour("payload")), size: few ? 8 : 5 },
    hovertemplate: "node %{x}: %{y:.4g} dBm<extra></extra>",
  }, budget], radiated);
}

const energyUnit = () => (Math.max(...current().energy) < 0.1 ? ["mJ", 1000] : ["J", 1]);
function drawEnergy() {
  const energy = current().energy, unit = energyUnit(), node = energy.map((_, n) => n);
  at("none-energy").textContent = "";
  if (!energy.some((v) => v > 0)) { leaveOut(["fig-energy"], "none-energy", "No energy was used: nothing was sent."); return; }
  if (alike(energy, 0.01)) { leaveOut(["fig-energy"], "none-energy", `Every node used ${(energy[0] * unit[1]).toPrecision(3)} ${unit[0]}, within 1%.`); return; }
  draw("fig-energy", [{
    type: "bar", x: node, y: energy.map((v) => v * unit[1]), marker: { color: nodeColours(node.length, colour("payload")) },
    hovertemplate: `node %{x}: %{y:.3g} ${unit[0]}<extra></extra>`,
  }], layout("Energy of each node, whole run", { bargap: 0.25, xaxis: nodeAxis(node.length), yaxis: axis(unit[0]) }));
}

Object.assign(cursorOf, {
  "fig-accuracy": () => alongAxis(chosen.against), "fig-loss": () => alongAxis("round"), "fig-gap": () => alongAxis("round"),
  "fig-channel": () => current().map.time[mapped.frame],
  "fig-tradeoff": () => { const t = current().tradeoff, k = t.round.findLastIndex((round) => round <= current().map.rounds[mapped.frame]); return k < 0 ? null : t.epsilon[k]; },
});
["fig-totals", "fig-radiated", "fig-split", "fig-energy", "fig-pi"].forEach((id) => { nodeOf[id] = (point) => point.x; });
["fig-learned", "fig-timeline"].forEach((id) => { nodeOf[id] = (point) => point.y; });

drawers.push([() => { drawAccuracy(); drawLoss(); drawTradeoff(); }, false], [drawTotals, true], [drawPower, true], [drawEnergy, true]);
