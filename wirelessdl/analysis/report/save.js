// Under every figure: its picture as SVG, or copied as PNG; its numbers as CSV; a way back from a zoom.

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

// A picture on the clipboard, on the page's background; a download where there is no clipboard.
async function copyPicture(shown, name, button) {
  const box = shown.getBoundingClientRect ? { width: shown.clientWidth, height: shown.clientHeight } : {};
  const still = { data: shown.data, layout: { ...shown.layout, ...box, paper_bgcolor: colour("paper") } };
  try {
    const url = await Plotly.toImage(still, { format: "png", scale: 2 });
    const bytes = Uint8Array.from(atob(url.split(",")[1]), (c) => c.charCodeAt(0));
    await navigator.clipboard.write([new ClipboardItem({ "image/png": new Blob([bytes], { type: "image/png" }) })]);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy PNG"; }, 1200);
  } catch { // no permission, or no clipboard
    Plotly.downloadImage(still, { format: "png", scale: 2, filename: name });
  }
}

// Buttons of a figure: what its picture shows, a figure or { data, layout }, and its numbers, both made when asked for.
function saveRow(name, picture, numbers) {
  const row = document.createElement("div");
  row.className = "save";
  [
    ["reset zoom", `reset the zoom of ${name}`, () => {}], ["copy PNG", `copy ${name} as PNG`, (button) => copyPicture(picture(), name, button)],
    ["SVG", `save ${name} as SVG`, () => Plotly.downloadImage(picture(), { format: "svg", filename: name })],
    ["CSV", `save ${name} as CSV`, () => offer(`${name}.csv`, numbers())],
  ].forEach(([words, label, act]) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = words;
    made.setAttribute("aria-label", label);
    made.onclick = () => act(made);
    if (words === "reset zoom") made.className = "reset hidden";
    row.append(made);
  });
  return row;
}

document.querySelectorAll(".figure").forEach((figure) => {
  const both = document.createElement("div"); // a figure may be a cell of a grid
  figure.replaceWith(both);
  both.append(figure, saveRow(figure.id.replace("fig-", ""), () => figure, () => table(figure.data)));
});
