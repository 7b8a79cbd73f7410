// Under every figure: its picture as SVG, its numbers as CSV.

function offer(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const quoted = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
};

// One row per mark: series, x, y, and z of a heat map. A gap in a line stays a gap.
function table(traces) {
  const lines = [["series", "x", "y", "z"]];
  traces.filter((trace) => trace.hoverinfo !== "skip").forEach((trace, n) => {
    const name = trace.name || (traces.length > 1 ? `series ${n + 1}` : "");
    if (trace.type === "heatmap") {
      trace.z.forEach((row, r) => row.forEach((value, c) => { if (value !== null) lines.push([name, trace.x[c], trace.y[r], value]); }));
    } else {
      Array.from(trace.x).forEach((x, k) => { if (x !== null) lines.push([name, x, trace.y[k], ""]); });
    }
  });
  return asCsv(lines);
}
const asCsv = (lines) => lines.map((line) => line.map(quoted).join(",")).join("\n") + "\n";

// Buttons of a figure: what its picture shows, a figure or { data, layout }, and its numbers, both made when asked for.
function saveRow(name, picture, numbers) {
  const row = document.createElement("div");
  row.className = "save";
  [["SVG", () => Plotly.downloadImage(picture(), { format: "svg", filename: name })], ["CSV", () => offer(`${name}.csv`, numbers())]].forEach(([words, act]) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = words;
    made.setAttribute("aria-label", `save ${name} as ${words}`);
    made.onclick = act;
    row.append(made);
  });
  return row;
}

document.querySelectorAll(".figure").forEach((figure) => {
  const both = document.createElement("div"); // a figure may be a cell of a grid
  figure.replaceWith(both);
  both.append(figure, saveRow(figure.id.replace("fig-", ""), () => figure, () => table(figure.data)));
});
