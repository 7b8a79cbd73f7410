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
      customdata: a.round, hovertemplate: "round %{customdata}: %{y:.1%}<extra></extra>",
    }));
  });
  traces.push(...bands((run) => run.learning.accuracy, x));
  const made = layout(several ? "Test accuracy, mean of nodes" : "Test accuracy: mean, worst and best node",
    { xaxis: axis(axisOf[x].title), yaxis: axis("", { tickformat: ".0%" }) });
  draw("fig-accuracy", traces, several ? withLegend(made, page.runs.length + page.families.length) : made);
}

function drawLoss() {
  const x = chosen.against;
  const traces = page.runs.map((run, n) => line(n, run.learning.loss[x], run.learning.loss.mean, {
    customdata: run.learning.loss.round, hovertemplate: "round %{customdata}: %{y:.3g}<extra></extra>", line: { color: series(n), width: 1.2, dash: dashes[n % 6] },
  }));
  const made = layout("Mini-batch loss, mean of nodes (no epsilon covers it)", { xaxis: axis(axisOf[x].title), yaxis: axis("nat") });
  draw("fig-loss", traces, several ? withLegend(made, page.runs.length) : made);
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
  const made = layout("Accuracy and promised total epsilon", {
    xaxis: axis(bound ? "promised total epsilon, running bound" : "promised total epsilon, worst node", { rangemode: "tozero" }),
    yaxis: axis("", { tickformat: ".0%" }),
  });
  draw("fig-tradeoff", traces, several ? withLegend(made, known.length) : made);
}

function drawTotals() {
  const totals = current().totals.accountants.filter((one) => one.epsilon.some((v) => v !== null));
  if (!totals.length) {
    leaveOut(["fig-totals"], "none-totals", current().totals.accountants.length ? "Totals are infinite: there is no privacy noise." : "No totals written yet.");
    return;
  }
  const traces = totals.map((one, n) => ({
    type: "scatter", mode: "markers", name: one.name, x: one.epsilon.map((_, node) => node), y: one.epsilon,
    marker: { color: series(n), symbol: symbols[n % 6], size: one.epsilon.length > 60 ? 4 : 7 },
    hovertemplate: "node %{x}: epsilon %{y:.3g} by " + one.name + "<extra></extra>",
  }));
  const every = totals.flatMap((one) => one.epsilon.filter((v) => v !== null && v > 0));
  const wide = Math.max(...every) > 8 * Math.min(...every);
  const made = layout("Promised total of each node, by accountant", {
    xaxis: nodeAxis(current().nodes),
    yaxis: axis("epsilon", wide ? logTicks() : { rangemode: "tozero" }),
  });
  made.margin.t += 26;
  made.showlegend = true;
  draw("fig-totals", traces, made);
}

function drawPower() {
  const { alpha, beta, power_dbm, budget_dbm } = current().power, node = alpha.map((_, n) => n);
  const share = (y, name, fill) => ({
    type: "bar", name, x: node, y, marker: { color: fill },
    hovertemplate: "node %{x}: %{y:.3f}<extra>" + name + "</extra>",
  });
  const made = layout("Share of power", {
    barmode: "stack", bargap: 0.25, xaxis: nodeAxis(node.length), yaxis: axis("", { range: [0, 1.02], dtick: 0.25 }),
  });
  made.margin.t += 26;
  made.showlegend = true;
  made.legend.traceorder = "normal";
  draw("fig-split", [share(alpha, "model, alpha", colour("payload")), share(beta, "noise, beta", colour("noise"))], made);
  const budget = {
    type: "scatter", mode: "lines", x: node, y: budget_dbm, name: "budget",
    line: { color: colour("soft"), dash: "dash", width: 1.2, shape: "hvh" }, hovertemplate: "budget %{y:.4g} dBm<extra></extra>",
  };
  const radiated = layout("Power radiated in the payload", { xaxis: nodeAxis(node.length), yaxis: axis("dBm"), showlegend: true });
  radiated.margin.t += 26;
  draw("fig-radiated", [{
    type: "scatter", mode: "markers", name: "radiated", x: node, y: power_dbm, marker: { color: colour("payload"), size: node.length > 60 ? 5 : 8 },
    hovertemplate: "node %{x}: %{y:.4g} dBm<extra></extra>",
  }, budget], radiated);
}

drawers.push([() => { drawAccuracy(); drawLoss(); drawTradeoff(); }, false], [drawTotals, true], [drawPower, true]);
