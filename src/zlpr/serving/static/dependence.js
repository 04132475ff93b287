// A toy of the theory for the static page: two labels with fixed shares, whose dependence is dragged.
// The scores are those where a loss's expected value is lowest (`zlpr.theory.risk_minimiser`).
"use strict";

(() => {
document.getElementById("tabs").insertAdjacentHTML("beforeend", '<button role="tab" id="tab-dependence" aria-controls="dependence" tabindex="-1">Dependence</button>');
document.querySelector("main").insertAdjacentHTML("beforeend", `
  <section role="tabpanel" id="dependence" aria-labelledby="tab-dependence" hidden>
    <div class="columns">
      <div class="card">
        <h2>Two labels, A and B</h2>
        <label class="slider" for="toy-tie">Their correlation: <output id="toy-words"></output>
          <input id="toy-tie" type="range" min="-0.428" max="1" step="any" value="0" aria-describedby="toy-lesson">
        </label>
        <p class="note ends" aria-hidden="true"><span id="toy-least"></span><span>always together</span></p>
        <label class="slider" for="toy-share">How often each of them is true: <output id="toy-share-words"></output>
          <input id="toy-share" type="range" min="0.05" max="0.95" step="0.01" value="0.3">
        </label>
        <h3>How often each set of labels comes</h3>
        <ol id="toy-sets" class="bars"></ol>
      </div>
      <div class="card">
        <h2>The score that training ends at, of A and of B</h2>
        <div id="toy-picture"></div>
        <div class="scroll"><table id="toy-scores">
          <thead><tr><th scope="col">loss</th><th scope="col">here</th><th scope="col">if independent</th><th scope="col">moved by</th></tr></thead>
          <tbody></tbody>
        </table></div>
        <p id="toy-lesson" class="note"></p>
        <details class="note"><summary>The formulas</summary>
          <p>With <i>p</i> the share of each label, <i>r</i> their correlation and <i>q</i> = <i>p</i><sup>2</sup> + <i>r p</i> (1 − <i>p</i>) the share of both together, the expected loss is lowest where</p>
          <p><b>BCE</b>: <i>s</i> = log <i>p</i> / (1 − <i>p</i>), without <i>q</i>;</p>
          <p><b>ZLPR</b>: (1 − 2<i>p</i> + <i>q</i>) <i>x</i> / (1 + 2<i>x</i>) + (<i>p</i> − <i>q</i>) (<i>x</i> − 1) / (<i>x</i> + 1) = <i>q</i> / (<i>x</i> + 2), with <i>x</i> = e<sup><i>s</i></sup>.</p>
        </details>
      </div>
    </div>
  </section>`);

const find = (id) => document.getElementById(id);
const POINTS = 80, HEIGHT = 230, LEFT = 44, RIGHT = 12, BOTTOM = 26, TOP = 8;

// The share of both labels under a correlation, `tie`; the lowest that the labels' shares allow is `least`.
const together = (share, tie) => share * share + tie * share * (1 - share);
const least = (share) => -Math.min(share, 1 - share) / Math.max(share, 1 - share);
const leastWords = (share) => (share > 0.5 ? "one is always true" : "never together");
const bce = (share) => Math.log(share / (1 - share));
function zlpr(share, both) {
  const slope = (score) => {
    const x = Math.exp(score);
    return ((1 - 2 * share + both) * x) / (1 + 2 * x) + ((share - both) * (x - 1)) / (x + 1) - both / (x + 2);
  };
  let low = -30, high = 30;  // the risk is convex: its slope crosses zero once
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (slope(middle) > 0) high = middle; else low = middle;
  }
  return (low + high) / 2;
}
const LOSSES = [["BCE", (share) => bce(share), "c1", "6 3"], ["ZLPR", (share, tie) => zlpr(share, together(share, tie)), "c0", "none"]];
const signed = (value, digits) => (Math.abs(value) < 0.5 * 10 ** -digits ? (0).toFixed(digits) : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`);

function drawSets(share, both) {
  const sets = [["neither", 1 - 2 * share + both], ["A alone", share - both], ["B alone", share - both], ["A and B", both]];
  find("toy-sets").replaceChildren(...sets.map(([name, part]) => {
    const fill = make("span", { class: "fill" });
    fill.style.width = `${100 * part}%`;
    return make("li", { class: "bar" }, make("span", { class: "name" }, name), make("span", { class: "share" }, `${(100 * part).toFixed(1)}%`), make("span", { class: "track", "aria-hidden": "true" }, fill));
  }));
}
function drawPicture(share, tie) {
  const width = find("toy-picture").clientWidth || 400, from = least(share);
  const ties = Array.from({ length: POINTS + 1 }, (_, place) => from + ((1 - from) * place) / POINTS);
  const lines = LOSSES.map(([name, score, colour, dash]) => ({ name, colour, dash, values: ties.map((one) => score(share, one)), now: score(share, tie) }));
  const all = lines.flatMap((line) => line.values), centre = (Math.min(...all) + Math.max(...all)) / 2;
  const half = Math.max(0.5, 0.6 * (Math.max(...all) - Math.min(...all))), step = half > 1.2 ? 0.5 : 0.25;
  const x = (one) => LEFT + ((width - LEFT - RIGHT) * (one - from)) / (1 - from), y = (score) => TOP + ((HEIGHT - BOTTOM - TOP) * (centre + half - score)) / (2 * half);
  const parts = [];
  for (let tick = Math.ceil((centre - half) / step) * step; tick <= centre + half; tick += step) {
    parts.push(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick), class: "grid" }), svg("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, signed(tick, 2).replace("+", "")));
  }
  for (const [at, words, anchor] of [[from, signed(from, 2), "start"], [0, "0", "middle"], [1, "+1", "end"]]) parts.push(svg("text", { x: x(at), y: HEIGHT - 8, "text-anchor": anchor }, words));
  parts.push(svg("text", { x: x(0.5), y: HEIGHT - 8, "text-anchor": "middle" }, "correlation"), svg("line", { x1: x(tie), x2: x(tie), y1: TOP, y2: HEIGHT - BOTTOM, class: "now" }));
  for (const line of lines) {
    parts.push(svg("polyline", { points: line.values.map((score, place) => `${x(ties[place]).toFixed(1)},${y(score).toFixed(1)}`).join(" "), class: `line ${line.colour}`, "stroke-dasharray": line.dash }));
    parts.push(svg("circle", { id: `toy-point-${line.name}`, cx: x(tie), cy: y(line.now), r: 7, class: `point ${line.colour}` }));
  }
  const legend = make("p", { class: "note legend" }, ...lines.map((line) => make("span", {}, svg("svg", { viewBox: "0 0 24 8", class: "key", "aria-hidden": "true" }, svg("line", { x1: 0, x2: 24, y1: 4, y2: 4, class: `line ${line.colour}`, "stroke-dasharray": line.dash })), ` ${line.name} `)));
  find("toy-picture").replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": "The score of a label against the correlation, a line for each loss; the table has the numbers" }, ...parts), legend);
}
function drawScores(share, tie) {
  find("toy-scores").tBodies[0].replaceChildren(...LOSSES.map(([name, score]) => {
    const here = score(share, tie), free = score(share, 0);
    return make("tr", { "data-loss": name }, make("th", { scope: "row" }, name), make("td", { class: "now" }, signed(here, 3)), make("td", {}, signed(free, 3)), make("td", {}, signed(here - free, 3)));
  }));
}
function draw() {
  const share = Number(find("toy-share").value);
  find("toy-tie").min = least(share);  // the browser moves a value that is below it
  const given = Number(find("toy-tie").value), tie = Math.abs(given) < 0.005 ? 0 : given, both = together(share, tie);
  const words = tie === 0 ? "0, independent" : signed(tie, 2);
  find("toy-words").textContent = words;
  find("toy-least").textContent = leastWords(share);
  find("toy-share-words").textContent = `${Math.round(100 * share)}%`;
  find("toy-tie").setAttribute("aria-valuetext", `${words}: score under BCE ${signed(bce(share), 2)}, under ZLPR ${signed(zlpr(share, both), 2)}`);
  find("toy-share").setAttribute("aria-valuetext", `${Math.round(100 * share)}%`);
  drawSets(share, both);
  drawPicture(share, tie);
  drawScores(share, tie);
  find("toy-lesson").textContent = Math.abs(share - 0.5) < 0.005
    ? "At one half both stand at 0, whatever the correlation: what true and false labels pull with is then the same. Choose another share."
    : "BCE adds up its labels, so only each label's share counts: its score stands still. ZLPR weighs a label together with the others, so its score moves with what comes with what. That the two differ at independence is another matter: the losses have different links from score to probability.";
}

for (const id of ["toy-tie", "toy-share"]) find(id).addEventListener("input", draw);
let drawn = 0;
new ResizeObserver(([box]) => { if (box.contentRect.width && box.contentRect.width !== drawn) { drawn = box.contentRect.width; draw(); } }).observe(find("toy-picture"));
globalThis.zlprBackend.tabs.dependence = draw;
})();
