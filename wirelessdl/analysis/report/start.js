// Controls of the page, and the first drawing.

function showRun() {
  document.querySelectorAll(".of-run").forEach((part) => part.classList.toggle("hidden", Number(part.dataset.run) !== chosen.run));
  document.querySelectorAll(".run-switch").forEach((select) => { select.value = chosen.run; });
}

function drawAll(onlyOneRun) {
  drawers.forEach(([drawer, oneRun]) => { if (oneRun || !onlyOneRun) drawer(); });
}

document.querySelectorAll(".run-switch").forEach((select) => {
  select.onchange = () => { chosen.run = Number(select.value); air.links = null; chosen.node = null; mapped.payload = -1; timeline.first = 0; play(false); showRun(); drawAll(true); drawAccuracy(); };
});

const switches = { colour: drawMap, against: drawAccuracy, heat: drawHeat, span: drawTimeline };
document.querySelectorAll(".switch").forEach((group) => {
  const name = group.dataset.switch;
  group.querySelectorAll("button").forEach((button) => {
    button.onclick = () => {
      group.querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", other === button));
      chosen[name] = name === "span" ? Number(button.dataset.value) : button.dataset.value;
      switches[name]();
    };
  });
});

at("round").oninput = () => { play(false); showFrame(Number(at("round").value)); };
at("speed").onchange = () => { if (mapped.timer !== null) play(true); };
if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) at("speed").value = "0.25";
at("turn-back").onclick = () => step(-1);
at("turn-on").onclick = () => step(1);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|SELECT|BUTTON|TEXTAREA|SUMMARY)$/.test(event.target.tagName)) return;
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (by) { play(false); showFrame(Math.min(Math.max(mapped.frame + by, 0), current().map.rounds.length - 1)); }
  else if (event.key === " ") { event.preventDefault(); play(mapped.timer === null); }
  else if (event.key === "n" || event.key === "p") {
    const nodes = current().nodes;
    pick(chosen.node === null ? (event.key === "n" ? 0 : nodes - 1) : (chosen.node + (event.key === "n" ? 1 : nodes - 1)) % nodes);
  } else if (event.key === "Escape" && chosen.node !== null) pick(chosen.node);
});
at("play").onclick = () => play(mapped.timer === null);
at("earlier").onclick = () => { timeline.first -= chosen.span; drawTimeline(); };
at("later").onclick = () => { timeline.first += chosen.span; drawTimeline(); };
at("from").onchange = listLinks;
at("add-link").onclick = () => {
  const map = current().map, tx = Number(at("from").value), rx = Number(at("to").value);
  const n = map.tx.findIndex((_, k) => map.tx[k] === tx && map.rx[k] === rx);
  if (n >= 0 && !air.links.includes(n)) { air.links.push(n); drawChannel(); }
};

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  at("theme").textContent = name === "dark" ? "light" : "dark";
}
const night = window.matchMedia("(prefers-color-scheme: dark)");
setTheme(night.matches ? "dark" : "light");
night.onchange = (event) => { setTheme(event.matches ? "dark" : "light"); drawAll(false); };
at("theme").onclick = () => { setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); drawAll(false); };

let side = narrow();
window.addEventListener("resize", () => { if (narrow() !== side) { side = narrow(); drawAll(false); } });

mapped.frame = current().map.rounds.length - 1;
showRun();
drawAll(false);
