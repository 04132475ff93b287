// The page of `zlpr serve`: no build step, nothing from elsewhere. What it shows comes from `backend`,
// which asks the server; browser.js puts another in its place (`globalThis.zlprBackend`), with its own tabs.
"use strict";

const find = (id) => document.getElementById(id);
const FIGURES = [
  ["precision", "precision"], ["recall", "recall"], ["micro_f1", "Micro-F1"],
  ["macro_f1", "Macro-F1"], ["subset_accuracy", "subset accuracy"], ["empty_share", "empty predictions"],
];

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
// Put children into an element, however many: a call takes some 100,000 arguments and no more.
function putInto(place, children) {
  const held = document.createDocumentFragment();
  for (const child of children) held.append(child);
  place.replaceChildren(held);
}
const maximum = (values) => values.reduce((most, value) => Math.max(most, value), -Infinity);
const percent = (share) => {
  if (share < 0.001) return "<0.1%";
  if (share > 0.999) return ">99.9%";
  return `${Number((100 * share).toFixed(share < 0.0995 || share > 0.994 ? 1 : 0))}%`;
};
const number = (value, digits = 3) => (value === null || value === undefined || Number.isNaN(value) ? "–" : value.toFixed(digits).replace("-", "−"));
const count = (many, one) => `${many.toLocaleString("en")} ${one}${many === 1 ? "" : "s"}`;
const debounced = (work, wait) => { let timer; return () => { clearTimeout(timer); timer = setTimeout(work, wait); }; };

// ---- asking the server -------------------------------------------------------------------------

class Refused extends Error {}

const serverBackend = {
  bars: 30,  // labels that are shown at first
  tabs: { try: () => ask(), threshold: () => drawThreshold(), errors: () => drawErrors(), labels: () => drawLabels(), compare: () => drawCompare() },
  get privacy() {
    return ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname)
      ? "Your text never leaves this machine: the page asks the server that runs here, loads nothing from elsewhere, and keeps no text in its address."
      : `Your text goes to ${location.host} and nowhere else: the page loads nothing from elsewhere and keeps no text in its address.`;
  },
  async fetch(path, body, headers = {}) {
    const token = sessionStorage.getItem("zlpr-token");
    const options = { headers: { ...headers } };
    if (token) options.headers.Authorization = `Bearer ${token}`;
    if (body !== undefined) {
      options.method = "POST";
      options.body = JSON.stringify(body);
      options.headers["Content-Type"] = "application/json";
    }
    let response;
    try {
      response = await fetch(path, options);
    } catch (fault) {
      lost();
      throw new Refused("The server does not answer.");
    }
    if (response.ok) return response;
    if (response.status === 401) askForToken();
    let reason = `The server said ${response.status}.`;
    try { reason = (await response.json()).error || reason; } catch (fault) { /* no JSON: the status must do */ }
    throw new Refused(reason);
  },
  async json(path, body, headers) { return (await this.fetch(path, body, headers)).json(); },
  async bytes(path) { return (await this.fetch(path)).arrayBuffer(); },
};
const backend = globalThis.zlprBackend ?? serverBackend;
const TABS = Object.keys(backend.tabs);
const asked = (path, values) => {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== undefined && value !== ""));
  return `${path}?${query}`;
};

let waiting = false;
function lost() {
  if (waiting) return;
  waiting = true;
  banner("The server does not answer. It may have been stopped; this page goes on when it is back.");
  const again = async () => {
    try {
      if ((await fetch("v2/health/ready")).ok) {
        waiting = false;
        banner("");
        shown.clear();
        await start();
        return;
      }
    } catch (fault) { /* still away */ }
    setTimeout(again, 1500);
  };
  setTimeout(again, 1500);
}
function banner(words, ...more) {
  const place = find("banner");
  place.replaceChildren(words, ...more);
  place.hidden = !words;
}
function askForToken() {
  const input = make("input", { type: "password", "aria-label": "Token", autocomplete: "off" });
  const form = make("form", { onsubmit: (event) => {
    event.preventDefault();
    sessionStorage.setItem("zlpr-token", input.value.trim());
    banner("");
    shown.clear();
    start();
  } }, input, make("button", {}, "Go on"));
  if (find("banner").hidden) banner("This server asks for its token. ", form);
}
function report(fault) {
  if (!(fault instanceof Refused)) throw fault;
  if (find("banner").hidden) banner(fault.message);
}
const guarded = (work) => async (...given) => { try { return await work(...given); } catch (fault) { report(fault); } };

// ---- what is looked at, in the address's hash: never the text -----------------------------------

const state = { tab: "try", model: "", other: "", t: "", label: "", kind: "", least: "", view: "", sort: "", each: "" };
let models = [];
const model = () => models.find((one) => one.name === state.model) ?? models[0];

function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(state)) state[name] = given.get(name) ?? (name === "tab" ? "try" : "");
  if (!TABS.includes(state.tab)) state.tab = "try";
  if (given.has("text")) {
    setText(given.get("text"));
    writeHash();
  }
}
function hash(more = {}) {
  const kept = Object.entries({ ...state, ...more }).filter(([, value]) => value !== "");
  return `#${new URLSearchParams(kept)}`;
}
function writeHash() { history.replaceState(null, "", hash()); }
function set(values) { Object.assign(state, values); writeHash(); }
async function copy(words, button) {
  const before = button.textContent;
  try { await navigator.clipboard.writeText(words); button.textContent = "Copied"; } catch (fault) { prompt("The link:", words); }
  setTimeout(() => { button.textContent = before; }, 1500);
}
const link = (more) => `${location.href.split("#")[0]}${hash(more)}`;

// ---- long lists: only what is in sight exists ---------------------------------------------------

const TALLEST = 30000000;  // pixels; browsers end at 33 million

class Rows {
  constructor(box, render) {
    this.box = box; this.render = render; this.count = 0; this.made = new Map();
    this.inner = make("div", { class: "inner" });
    box.replaceChildren(this.inner);
    box.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => { if (this.height !== this.measure()) this.show(this.count); else this.draw(); }).observe(box);
  }
  measure() { return parseFloat(getComputedStyle(this.box).getPropertyValue("--row")) * 16 || 40; }
  show(many, { keepPlace = true } = {}) {
    this.count = many; this.height = this.measure();
    this.inner.style.height = `${Math.min(many * this.height, TALLEST)}px`;
    this.inner.replaceChildren(); this.made.clear();
    if (!keepPlace) this.box.scrollTop = 0;
    this.draw();
  }
  draw() {
    const whole = this.count * this.height, sight = this.box.clientHeight;
    // Where the rows are taller than an element can be, the scroll bar's steps are longer than a pixel.
    const stretch = whole > TALLEST ? (whole - sight) / (TALLEST - sight) : 1;
    const from = this.box.scrollTop * stretch, shift = this.box.scrollTop - from;
    const first = Math.max(0, Math.floor(from / this.height) - 3);
    const last = Math.min(this.count, Math.ceil((from + sight) / this.height) + 3);
    for (const [place, row] of this.made) if (place < first || place >= last) { row.remove(); this.made.delete(place); }
    if (shift) for (const [place, row] of this.made) row.style.top = `${place * this.height + shift}px`;
    for (let place = first; place < last; place++) {
      if (this.made.has(place)) continue;
      const row = this.render(place);
      row.classList.add("row");
      row.style.top = `${place * this.height + shift}px`;
      const after = [...this.made.keys()].filter((other) => other > place);
      this.inner.insertBefore(row, after.length ? this.made.get(Math.min(...after)) : null);
      this.made.set(place, row);
    }
  }
}

// ---- Try ----------------------------------------------------------------------------------------

let latest = 0, answer = null, allBars = false, chosenLabel = "";
function setText(words) { find("text").value = words; find("compare-text").value = words; }

const ask = guarded(async () => {
  const words = find("text").value, turn = ++latest;
  if (!words.trim()) { answer = null; drawBars(); return; }
  const said = await backend.json(asked("predict", { model: model().name }), { texts: [words], all_labels: true });
  if (turn !== latest) return;
  answer = said.answers[0];
  drawBars();
});

function drawBars() {
  const place = find("bars");
  find("more").hidden = true;
  if (!answer) {
    place.replaceChildren();
    find("bars-note").textContent = model().reads_texts ? "They appear as you type." : "This model reads features, not texts; programs can ask it.";
    find("why").hidden = true;
    return;
  }
  const names = Object.keys(answer.probabilities).sort((a, b) => answer.probabilities[b] - answer.probabilities[a]);
  const chosen = new Set(answer.labels);
  names.sort((a, b) => chosen.has(b) - chosen.has(a));
  const cuts = model().probabilities_at_cuts;
  find("bars-note").textContent = `${chosen.size ? count(chosen.size, "label") + " predicted" : "No label is predicted"}, by the rule “${model().rule}”${model().adds_ancestors ? " and with their ancestors" : ""}. ` +
    (cuts ? "The mark on a bar is the label's cut. " : "") + "Choose a label to see which words weigh.";
  const shownNames = allBars ? names : names.slice(0, Math.max(backend.bars, chosen.size));
  const index = new Map(model().labels.map((name, column) => [name, column]));
  const own = model().cuts;
  putInto(place, shownNames.map((name) => bar(name, chosen.has(name), cuts && cuts[index.get(name)], own && own[index.get(name)])));
  if (names.length > shownNames.length) {
    find("more").hidden = false;
    find("more").textContent = `Show all ${names.length.toLocaleString("en")} labels`;
  }
  if (!chosenLabel || !(chosenLabel in answer.probabilities)) chosenLabel = names[0] ?? "";
  if (chosenLabel) explain(chosenLabel); else find("why").hidden = true;
}
function bar(name, predicted, cut, threshold) {
  const share = answer.probabilities[name], score = answer.scores[name];
  const fill = make("span", { class: "fill" }), track = make("span", { class: "track", "aria-hidden": "true" }, fill);
  fill.style.width = `${100 * share}%`;
  if (cut !== null && cut !== undefined) {
    const mark = make("span", { class: "cut" });
    mark.style.left = `${100 * cut}%`;
    track.append(mark);
  }
  const words = `${name}, ${percent(share)}, ${predicted ? "predicted" : "not predicted"}`;
  return make("li", {}, make("button", {
    type: "button", class: predicted ? "bar predicted" : "bar", "aria-label": words, "aria-pressed": String(name === chosenLabel), "data-label": name,
    onclick: () => explain(name),
  }, make("span", { class: "name" }, predicted ? "✓ " : "", name), make("span", { class: "share" }, make("span", { class: "note" }, `score ${number(score, 2)}${threshold === null ? "" : `, cut ${number(threshold, 2)}`}`), percent(share)), track));
}
const explain = guarded(async (name) => {
  chosenLabel = name;
  for (const button of find("bars").querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset.label === name));
  const words = find("text").value, turn = latest;
  const said = (await backend.json(asked("explain", { model: model().name }), { text: words, label: name, top: 8 })).explanations[0];
  if (turn !== latest || chosenLabel !== name) return;
  drawWhy(words, said);
});
function drawWhy(words, said) {
  find("why").hidden = false;
  find("why-title").textContent = `Why “${said.label}”${said.predicted ? "" : " is not predicted"}`;
  const largest = Math.max(1e-9, maximum(said.words.map((place) => Math.abs(place.value))));
  const pieces = [], letters = Array.from(words);  // places count characters, not UTF-16 units
  let end = 0;
  for (const place of said.words) {
    pieces.push(letters.slice(end, place.start).join(""));
    const weight = Math.abs(place.value) / largest;
    const mark = make("mark", { class: place.value >= 0 ? "for" : "against", title: `${place.value >= 0 ? "+" : "−"}${Math.abs(place.value).toFixed(3)}` }, letters.slice(place.start, place.end).join(""));
    mark.style.setProperty("--weight", `${Math.round(60 * weight)}%`);
    pieces.push(mark);
    end = place.end;
  }
  putInto(find("why-words"), [...pieces, letters.slice(end).join("")]);
  const sign = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
  const listed = [...said.contributions, ...said.elsewhere];
  find("why-parts").replaceChildren(...listed.map((part) => make("li", {}, make("code", {}, part.part), " ", make("span", { class: part.value >= 0 ? "for" : "against" }, sign(part.value)))));
  find("why-sum").textContent = `Score ${said.score.toFixed(3)} = ${said.bias.toFixed(3)} for a text without words ${sign(said.score - said.bias)} by its words.`;
  find("why-note").textContent = said.approximates ? `Approximate: ${said.approximates}.` : "";
}

// ---- data: fetched once for each model ----------------------------------------------------------

const shown = new Map();
function once(key, work) {
  if (!shown.has(key)) {
    const made = work();
    shown.set(key, made);
    made.catch(() => shown.delete(key));
  }
  return shown.get(key);
}
const review = (name) => once(`review ${name}`, () => backend.json(asked("review", { model: name })));
const errorsOf = (name) => once(`errors ${name}`, async () => {
  const [about, bytes] = await Promise.all([review(name), backend.bytes(asked("review/errors", { model: name }))]);
  const many = about.errors;
  let at = 0;
  const take = (Kind, size) => { const part = new Kind(bytes, at, size); at += part.byteLength; return part; };
  return { surprise: take(Float32Array, about.samples), samples: take(Uint32Array, many), labels: take(Uint32Array, many),
    scores: take(Float32Array, many), probabilities: take(Float32Array, many), spurious: take(Uint8Array, many) };
});
const cutsOf = (name) => once(`cuts ${name}`, async () => {
  const [about, bytes] = await Promise.all([review(name), backend.bytes(asked("review/cells", { model: name }))]);
  return new Cuts(about, bytes);
});

class Samples {  // texts of the rows in sight, asked for together
  constructor() { this.known = new Map(); this.wanted = new Map(); this.send = debounced(guarded(() => this.fetch()), 30); }
  get(sample, use, names) {
    const key = `${names.join("\n")}\n${sample}`;
    if (this.known.has(key)) { use(this.known.get(key)); return; }
    this.wanted.set(key, { sample, names, uses: [...(this.wanted.get(key)?.uses ?? []), use] });
    this.send();
  }
  async fetch() {
    const batch = [...this.wanted].slice(-200);  // the last that came into sight
    this.wanted.clear();
    const groups = new Map();
    for (const [key, entry] of batch) groups.set(entry.names.join("\n"), [...(groups.get(entry.names.join("\n")) ?? []), [key, entry]]);
    for (const entries of groups.values()) {
      const [name, other] = entries[0][1].names;
      const said = await backend.json(asked("review/samples", { model: name, other }), { samples: entries.map(([, entry]) => entry.sample) });
      said.samples.forEach((sample, place) => {
        const [key, entry] = entries[place];
        if (this.known.size > 5000) this.known.clear();
        this.known.set(key, sample);
        for (const use of entry.uses) use(sample);
      });
    }
  }
}
const samples = new Samples();

function drawNotes(panel, about) {
  const place = panel.querySelector(".notes"), body = panel.querySelector(".needs-data");
  body.hidden = !about;
  if (!about) {
    place.replaceChildren(make("p", { class: "card" }, "This view needs data. Start with it: ", make("code", {}, `zlpr serve ${model().name} DATA`)));
    return;
  }
  const title = make("p", {}, make("strong", {}, `${about.data || "The data"}, ${about.part}: `), count(about.samples, "sample"));
  place.replaceChildren(title, ...about.notes.map((note) => make("p", { class: "warning" }, `${note[0].toUpperCase()}${note.slice(1)}.`)));
}

// ---- Threshold ----------------------------------------------------------------------------------

class Cuts {  // decisions under cuts that move: a cut that moves touches the cells it passes alone
  constructor(about, bytes) {
    const labels = about.support.length, many = about.cells;
    let at = 0;
    const take = (Kind, size) => { const part = new Kind(bytes, at, size); at += part.byteLength; return part; };
    this.about = about;
    this.starts = take(Uint32Array, labels + 1);
    this.samples = take(Uint32Array, many);
    this.scores = take(Float32Array, many);
    this.true = take(Uint8Array, many);
    this.sizes = new Uint16Array(bytes.slice(at, at + 2 * about.samples));
    if (about.ancestors) this.held = this.trueLabels(new Uint32Array(bytes.slice(at + 2 * about.samples)));
    this.reset();
  }
  trueLabels(flat) {  // places sample * labels + label
    const held = new Set(), labels = this.about.support.length;
    let at = 0;
    this.sizes.forEach((size, sample) => { for (let end = at + size; at < end; at++) held.add(sample * labels + flat[at]); });
    return held;
  }
  reset() {
    const labels = this.about.support.length;
    this.cuts = new Float32Array(labels).fill(Infinity);
    this.passed = new Uint32Array(labels);      // of each label: cells above its cut
    this.reasons = new Map();                   // of sample * labels + label: such cells at or below that label
    this.predicted = new Uint32Array(labels);
    this.hits = new Uint32Array(labels);
    this.wrong = Int32Array.from(this.sizes);   // of each sample: labels that are decided wrongly
    this.chosen = new Int32Array(this.sizes.length);
    this.exact = this.sizes.reduce((sum, size) => sum + (size === 0), 0);
    this.empty = this.sizes.length;
  }
  lowest(label) { return this.about.floors[label] ?? this.about.lowest - 1; }
  move(label, cut) {
    cut = Math.fround(Math.max(cut, this.lowest(label)));
    this.cuts[label] = cut;
    const first = this.starts[label], many = this.starts[label + 1] - first;
    let place = this.passed[label];
    while (place < many && this.scores[first + place] > cut) this.turn(label, first + place++, 1);
    while (place > 0 && this.scores[first + place - 1] <= cut) this.turn(label, first + --place, -1);
    this.passed[label] = place;
  }
  turn(label, cell, step) {
    const sample = this.samples[cell], above = this.about.ancestors?.[label];
    if (!above) { this.decide(label, sample, this.true[cell], step); return; }
    for (const one of [label, ...above]) {  // predicted for as long as there is a reason
      const place = sample * this.cuts.length + one, before = this.reasons.get(place) ?? 0;
      this.reasons.set(place, before + step);
      if (before === 0 || before + step === 0) this.decide(one, sample, this.held.has(place), step);
    }
  }
  decide(label, sample, isTrue, step) {
    const change = isTrue ? -step : step;
    this.predicted[label] += step;
    if (isTrue) this.hits[label] += step;
    const before = this.wrong[sample];
    this.wrong[sample] += change;
    this.exact += (this.wrong[sample] === 0) - (before === 0);
    this.chosen[sample] += step;
    if (step > 0 && this.chosen[sample] === 1) this.empty--;
    if (step < 0 && this.chosen[sample] === 0) this.empty++;
  }
  moveAll(cut) { for (let label = 0; label < this.cuts.length; label++) this.move(label, cut); }
  ofLabel(label) {
    const support = this.about.support[label], predicted = this.predicted[label], hits = this.hits[label];
    const absent = support + predicted === 0 && this.about.empty === "paper" ? 1 : 0;
    return { precision: predicted ? hits / predicted : absent, recall: support ? hits / support : absent, f1: support + predicted ? (2 * hits) / (support + predicted) : absent };
  }
  figures() {
    let predicted = 0, hits = 0, support = 0, macro = 0;
    for (let label = 0; label < this.cuts.length; label++) {
      predicted += this.predicted[label]; hits += this.hits[label]; support += this.about.support[label];
      macro += this.ofLabel(label).f1;
    }
    const together = predicted + support, many = Math.max(1, this.sizes.length);
    return {
      precision: hits / Math.max(predicted, 1), recall: hits / Math.max(support, 1),
      micro_f1: together ? (2 * hits) / together : this.about.empty === "paper" ? 1 : 0,
      macro_f1: macro / Math.max(1, this.cuts.length), subset_accuracy: this.exact / many, empty_share: this.empty / many,
    };
  }
}

const LINES = [["precision", "precision", "c0", "none"], ["recall", "recall", "c1", "6 3"], ["micro_f1", "Micro-F1", "c2", "none"], ["subset_accuracy", "subset accuracy", "c3", "2 3"]];
const SVG = "http://www.w3.org/2000/svg";
function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
function drawCurves(cuts, low, high) {
  const width = 560, height = 220, left = 34, bottom = 24, points = 120;
  const sweep = Object.create(Cuts.prototype, Object.getOwnPropertyDescriptors(cuts));
  sweep.reset();
  const values = [];
  for (let place = points; place >= 0; place--) {
    const cut = low + ((high - low) * place) / points;
    sweep.moveAll(cut);
    values.push([cut, sweep.figures()]);
  }
  const x = (cut) => left + ((width - left - 6) * (cut - low)) / (high - low), y = (share) => 6 + (height - bottom - 6) * (1 - share);
  const parts = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => [
    svg("line", { x1: left, x2: width - 6, y1: y(share), y2: y(share), class: "grid" }),
    svg("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end" }, share.toFixed(2)),
  ]);
  const step = 10 ** Math.floor(Math.log10((high - low) / 2)) * ((high - low) / 10 ** Math.floor(Math.log10((high - low) / 2)) > 5 ? 2 : 1);
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) parts.push(svg("text", { x: x(tick), y: height - 6, "text-anchor": "middle" }, String(Math.round(tick * 100) / 100)));
  for (const [name, , colour, dash] of LINES) parts.push(svg("polyline", { points: values.map(([cut, figures]) => `${x(cut).toFixed(1)},${y(figures[name]).toFixed(1)}`).join(" "), class: `line ${colour}`, "stroke-dasharray": dash }));
  const now = svg("line", { id: "now", x1: 0, x2: 0, y1: 6, y2: height - bottom, class: "now" });
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Figures against one cut for all labels; the table has the numbers" }, ...parts, now);
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect();
    const cut = low + ((event.clientX - box.left) * (width / box.width) - left) / (width - left - 6) * (high - low);
    if (state.each) return;
    find("cut").value = Math.min(high, Math.max(low, cut));
    find("cut").dispatchEvent(new Event("input"));
  });
  const legend = make("p", { class: "note legend" }, ...LINES.map(([, words, colour, dash]) => {
    const sample = svg("svg", { viewBox: "0 0 24 8", class: "key", "aria-hidden": "true" }, svg("line", { x1: 0, x2: 24, y1: 4, y2: 4, class: `line ${colour}`, "stroke-dasharray": dash }));
    return make("span", {}, sample, ` ${words} `);
  }));
  find("curves").replaceChildren(picture, legend);
  return (cut) => { const place = Math.min(width - 6, Math.max(left, x(cut))); now.setAttribute("x1", place); now.setAttribute("x2", place); };
}

let cuts = null, mark = () => {}, eachRows = null, eachShown = [];
async function drawThreshold() {
  const about = model().reviewed ? await review(model().name) : null;
  drawNotes(find("threshold"), about);
  if (!about) return;
  const fresh = await cutsOf(model().name);
  if (fresh !== cuts) {
    cuts = fresh;
    cuts.reset();  // it may have been moved before another model was looked at
    const floors = about.floors.filter((floor) => floor !== null);
    const low = floors.length ? maximum(floors) : Math.max(about.lowest - 0.01, -1e6), high = Math.min(about.highest + 0.01, 1e6);
    find("cut").min = low; find("cut").max = high;
    mark = drawCurves(cuts, low, high);
    find("test-head").textContent = about.test ? "test, once" : "";
    find("test-note").textContent = about.test
      ? `The last column is of ${count(about.test_samples, "sample")} that nothing here is chosen on. It is the model's own rule and does not move: cuts that are chosen on a test part look better there than they are.`
      : "";
    find("save").hidden = !model().may_save;
  }
  const own = about.thresholds ?? new Array(about.support.length).fill(0);
  const same = own.every((cut) => cut === own[0]);
  if (!state.each && !same && state.t === "") set({ each: "1" });
  document.querySelector(`input[name=cuts][value=${state.each ? "each" : "one"}]`).checked = true;
  const unmoved = cuts.cuts[0] === Infinity, given = state.t !== "" && Number.isFinite(Number(state.t));
  if (given && (unmoved || !state.each)) cuts.moveAll(Number(state.t));
  else if (unmoved) own.forEach((cut, label) => cuts.move(label, cut));
  find("cut").value = state.t !== "" ? state.t : own[0];
  if (!eachRows) eachRows = new Rows(find("each-rows"), (place) => eachRow(eachShown[place]));
  filterEach();
  drawFigures();
}
function drawFigures() {
  const about = cuts.about, now = cuts.figures();
  const rows = FIGURES.map(([name, words]) => make("tr", {}, make("th", { scope: "row" }, words), make("td", { class: "now" }, number(now[name])), make("td", {}, number(about.own[name])), make("td", { class: "once" }, about.test ? number(about.test[name]) : "")));
  find("figures").tBodies[0].replaceChildren(...rows);
  const one = !state.each;
  find("one-cut").hidden = !one;
  find("each-cut").hidden = one;
  find("cut-value").textContent = number(Number(find("cut").value), 2);
  find("now")?.classList.toggle("hidden", !one);
  mark(Number(find("cut").value));
}
function eachRow(label) {
  const name = model().labels[label], cell = cuts.scores, first = cuts.starts[label], last = cuts.starts[label + 1] - 1;
  const highest = last >= first ? cell[first] + 0.01 : 1, lowest = Math.max(cuts.lowest(label), last >= first ? cell[last] - 0.01 : -1);
  const value = make("output", {}), said = make("span", { class: "note" });
  const input = make("input", { type: "range", step: "any", min: lowest, max: highest, "aria-label": `Cut of ${name}` });
  input.value = cuts.cuts[label];
  const draw = () => {
    const figures = cuts.ofLabel(label);
    value.textContent = number(cuts.cuts[label], 2);
    said.textContent = `F1 ${number(figures.f1, 2)} · precision ${number(figures.precision, 2)} · recall ${number(figures.recall, 2)} · ${cuts.about.support[label].toLocaleString("en")} true`;
  };
  const row = make("div", { class: "each" }, make("label", {}, make("span", { class: "name" }, name), value, input), said);
  row.redraw = draw;
  input.addEventListener("input", () => {
    cuts.move(label, Number(input.value));
    for (const each of eachRows.made.values()) each.redraw();  // a label's ancestors move with it
    drawFigures();
  });
  draw();
  return row;
}
function filterEach() {
  const words = find("each-filter").value.toLowerCase();
  eachShown = model().labels.map((name, label) => label).filter((label) => model().labels[label].toLowerCase().includes(words));
  if (state.each && cuts) eachRows.show(eachShown.length);
}
const frame = (work) => { let due = false; return () => { if (!due) { due = true; requestAnimationFrame(() => { due = false; work(); }); } }; };
const moveCut = frame(() => {
  set({ t: String(Math.round(Number(find("cut").value) * 1000) / 1000) });
  cuts.moveAll(Number(state.t));
  drawFigures();
});
const saveRule = guarded(async () => {
  const thresholds = state.each ? Array.from(cuts.cuts) : cuts.cuts[0];
  find("save-said").textContent = "Saving …";
  try {
    const said = await backend.json(asked("rule", { model: model().name }), { thresholds, name: find("save-name").value.trim() }, { "X-Zlpr-Page": "1" });
    find("save-said").textContent = `Saved: ${said.saved}`;
  } catch (fault) {
    if (!(fault instanceof Refused)) throw fault;
    find("save-said").textContent = `Not saved: ${fault.message}`;
  }
});

// ---- Errors -------------------------------------------------------------------------------------

let errorRows = null, errorOrder = [], errorData = null;
async function drawErrors() {
  const about = model().reviewed ? await review(model().name) : null;
  drawNotes(find("errors"), about);
  if (!about) return;
  errorData = await errorsOf(model().name);
  find("error-view").value = state.view || "errors";
  find("error-label").value = state.label;
  find("error-kind").value = state.kind;
  find("error-least").value = state.least || 0;
  if (!errorRows) errorRows = new Rows(find("error-rows"), (place) => (state.view ? doubtfulRow(errorOrder[place]) : errorRow(errorOrder[place])));
  filterErrors();
}
function filterErrors() {
  const doubtful = state.view === "doubtful", label = model().labels.indexOf(state.label), least = Number(state.least || 0);
  for (const id of ["error-label", "error-kind", "error-least", "error-csv"]) find(id).disabled = doubtful;
  find("error-sure").textContent = `${Math.round(100 * least)}%`;
  if (doubtful) {
    errorOrder = Array.from(errorData.surprise.keys()).sort((a, b) => errorData.surprise[b] - errorData.surprise[a]).slice(0, 1000);
    find("error-count").textContent = `The ${count(errorOrder.length, "sample")} whose given labels surprise the model most. Whether the label or the model is wrong is for you to see.`;
  } else {
    errorOrder = [];
    for (let place = 0; place < errorData.samples.length; place++) {
      if (label >= 0 && errorData.labels[place] !== label) continue;
      if (state.kind && errorData.spurious[place] !== Number(state.kind === "spurious")) continue;
      if (against(place) < least) break;  // they come the surest first
      errorOrder.push(place);
    }
    const missing = state.label && label < 0 ? ` There is no label “${state.label}”.` : "";
    if (missing) errorOrder = [];
    find("error-count").textContent = `${count(errorOrder.length, "error")} of the model's own rule, those first that it is surest of.${missing}`;
  }
  errorRows.show(errorOrder.length, { keepPlace: false });
}
const against = (place) => (errorData.spurious[place] ? errorData.probabilities[place] : 1 - errorData.probabilities[place]);
function errorRow(place) {
  const sample = errorData.samples[place], name = model().labels[errorData.labels[place]], spurious = errorData.spurious[place];
  const head = [make("span", { class: spurious ? "badge spurious" : "badge missed" }, spurious ? "spurious" : "missed"), make("strong", {}, name), make("span", { class: "note" }, `probability ${percent(errorData.probabilities[place])}`)];
  return sampleRow(sample, head, [model().name]);
}
function doubtfulRow(sample) {
  return sampleRow(sample, [make("span", { class: "note" }, `surprise ${number(errorData.surprise[sample], 1)}`)], [model().name], true);
}
function sampleRow(sample, head, names, labels = false) {
  const words = make("span", { class: "clamp" }, "…"), line = make("span", { class: "line-head" }, ...head);
  const row = make("button", { type: "button", class: "sample-row" }, line, words);
  samples.get(sample, (said) => {
    words.textContent = said.text || said.id || `sample ${said.sample}`;
    if (labels) line.append(...labelWords(said, names));
    row.onclick = () => openSample(said, names);
  }, names);
  return row;
}
const listed = (names) => (names.length ? names.join(", ") : "none");
function labelWords(said, names) {
  const words = [make("span", {}, "given: ", make("strong", {}, listed(said.true)))];
  said.predicted.forEach((labels, place) => words.push(make("span", {}, `${names.length > 1 ? names[place] : "predicted"}: `, make("strong", {}, listed(labels)))));
  return words;
}
function openSample(said, names) {
  find("sample-title").textContent = said.id ? `Sample ${said.sample} (${said.id})` : `Sample ${said.sample}`;
  find("sample-text").textContent = said.text + (said.cut ? " …" : "");
  const pairs = [["given", said.true], ...said.predicted.map((labels, place) => [names.length > 1 ? names[place] : "predicted", labels])];
  find("sample-labels").replaceChildren(...pairs.flatMap(([words, labels]) => [make("dt", {}, words), make("dd", {}, listed(labels))]));
  find("sample-try").onclick = () => { find("sample").close(); setText(said.text); go("try"); };
  find("sample-try").hidden = !model().reads_texts;
  find("sample").showModal();
}
const downloadErrors = guarded(async () => {
  const response = await backend.fetch(asked("review/errors.csv", { model: model().name, label: state.label, kind: state.kind, least: state.least }));
  const address = URL.createObjectURL(await response.blob());
  make("a", { href: address, download: `${model().name}-errors.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
});

// ---- Labels -------------------------------------------------------------------------------------

const COLUMNS = [["label", "label", ""], ["f1", "F1", ""], ["precision", "precision", "less"], ["recall", "recall", "less"], ["support", "true", ""], ["predicted", "predicted", "less"], ["threshold", "cut", "less"], ["confused", "missed, and predicted instead", ""]];
let labelRows = null, labelOrder = [], labelFigures = [];
async function drawLabels() {
  const about = model().reviewed ? await review(model().name) : null;
  drawNotes(find("labels"), about);
  if (!about) return;
  labelFigures = model().labels.map((name, label) => {
    const support = about.support[label], predicted = about.predicted[label], hits = about.hits[label];
    return { label: name, support, predicted, precision: predicted ? hits / predicted : NaN, recall: support ? hits / support : NaN,
      f1: support + predicted ? (2 * hits) / (support + predicted) : NaN, threshold: about.thresholds ? about.thresholds[label] : NaN,
      confused: about.confused[label].reduce((sum, [, many]) => sum + many, 0), with: about.confused[label] };
  });
  if (!labelRows) labelRows = new Rows(find("label-rows"), (place) => labelRow(labelFigures[labelOrder[place]]));
  sortLabels();
}
function sortLabels() {
  const [column, down] = (state.sort || "f1").split("-"), direction = down ? -1 : 1;
  const words = find("label-filter").value.toLowerCase();
  labelOrder = labelFigures.map((_, label) => label).filter((label) => labelFigures[label].label.toLowerCase().includes(words));
  labelOrder.sort((a, b) => {
    const [x, y] = [labelFigures[a][column], labelFigures[b][column]];
    if (typeof x === "string") return direction * x.localeCompare(y);
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);  // what has no figure stays last
    return direction * (x - y);
  });
  find("label-heads").replaceChildren(...COLUMNS.map(([name, title, less]) => make("span", { role: "columnheader", class: `${name} ${less}`, "aria-sort": name === column ? (down ? "descending" : "ascending") : "none" },
    make("button", { type: "button", onclick: () => { set({ sort: name === column && !down ? `${name}-down` : name }); sortLabels(); find("label-heads").querySelector(`.${name} button`).focus(); } }, title, name === column ? (down ? " ↓" : " ↑") : ""))));
  labelRows.show(labelOrder.length, { keepPlace: false });
}
function labelRow(one) {
  const cell = (name, less, ...inside) => make("span", { role: "cell", class: `${name} ${less}` }, ...inside);
  const fill = make("span", { class: "fill" });
  fill.style.width = `${100 * (one.f1 || 0)}%`;
  const confusedWith = one.with.map(([label, many]) => `${model().labels[label]} (${many})`).join(", ");
  return make("div", { role: "row", class: "label-row" },
    cell("label", "", make("button", { type: "button", class: "plain", title: "Show its errors", onclick: () => { set({ label: one.label, kind: "", least: "", view: "" }); go("errors"); } }, one.label)),
    cell("f1", "", number(one.f1), make("span", { class: "track", "aria-hidden": "true" }, fill)), cell("precision", "less", number(one.precision)), cell("recall", "less", number(one.recall)),
    cell("support", "", one.support.toLocaleString("en")), cell("predicted", "less", one.predicted.toLocaleString("en")), cell("threshold", "less", number(one.threshold, 2)), cell("confused", "", confusedWith || "–"));
}

// ---- Compare ------------------------------------------------------------------------------------

let compareRows = null, compared = null;
const other = () => models.find((one) => one.name === state.other) ?? models.find((one) => one !== model());
async function drawCompare() {
  const alone = models.length < 2;
  find("compare-needs").hidden = !alone;
  find("compare-body").hidden = alone;
  find("compare-needs").replaceChildren("This view needs two models. Start with them: ", make("code", {}, `zlpr serve ${models[0].name} ANOTHER DATA`));
  if (alone) return;
  const second = other();
  find("other").replaceChildren(...models.filter((one) => one !== model()).map((one) => make("option", { value: one.name, selected: one === second }, one.name)));
  await askBoth();
  find("compare-data").hidden = !(model().reviewed && second.reviewed);
  if (find("compare-data").hidden) return;
  const [first, key] = [model(), `compare ${model().name}\n${second.name}`];
  compared = await once(key, () => backend.json(asked("review/compare", { model: first.name, other: second.name })));
  const told = await Promise.all([first, second].map((one) => review(one.name)));
  find("compare-notes").replaceChildren(...told.flatMap((about, place) => about.notes.map((note) => make("p", { class: "warning" }, `${[first, second][place].name}: ${note}.`))));
  const heads = ["figure", first.name, second.name, ...(compared.test[0] ? [`${first.name}, test`, `${second.name}, test`] : [])];
  find("compare-figures").tHead.replaceChildren(make("tr", {}, ...heads.map((words) => make("th", { scope: "col" }, words))));
  find("compare-figures").tBodies[0].replaceChildren(...FIGURES.map(([name, words]) => make("tr", {}, make("th", { scope: "row" }, words),
    ...compared.figures.map((figures) => make("td", {}, number(figures[name]))), ...(compared.test[0] ? compared.test.map((figures) => make("td", { class: "once" }, number(figures[name]))) : []))));
  const many = compared.differ.length;
  find("compare-count").textContent = `They disagree on ${count(many, "sample")} of ${compared.samples.toLocaleString("en")}: on ${compared.right[0].toLocaleString("en")} of these ${first.name} is right, on ${compared.right[1].toLocaleString("en")} ${second.name}, on ${(many - compared.right[0] - compared.right[1]).toLocaleString("en")} neither.`;
  if (!compareRows) compareRows = new Rows(find("compare-rows"), (place) => sampleRow(compared.differ[place], [], [model().name, other().name], true));
  compareRows.show(many, { keepPlace: false });
}
let latestPair = 0;
const askBoth = guarded(async () => {
  const words = find("compare-text").value, turn = ++latestPair, pair = [model(), other()];
  if (!words.trim()) { find("compare-answers").replaceChildren(); return; }
  const said = await Promise.all(pair.map((one) => backend.json(asked("predict", { model: one.name }), { texts: [words], all_labels: true })));
  if (turn !== latestPair) return;
  const answers = said.map((one) => one.answers[0]);
  find("compare-answers").replaceChildren(...pair.map((one, place) => {
    const own = answers[place], others = new Set(answers[1 - place].labels), chosen = new Set(own.labels);
    const best = Object.keys(own.probabilities).sort((a, b) => chosen.has(b) - chosen.has(a) || own.probabilities[b] - own.probabilities[a]).slice(0, Math.max(8, chosen.size));
    const only = own.labels.filter((label) => !others.has(label));
    return make("div", {}, make("h3", {}, one.name), make("p", { class: "note" }, only.length ? `only here: ${only.join(", ")}` : "nothing that the other does not predict"),
      make("ol", { class: "bars" }, ...best.map((label) => {
        const fill = make("span", { class: "fill" });
        fill.style.width = `${100 * own.probabilities[label]}%`;
        return make("li", { class: chosen.has(label) ? "bar predicted" : "bar" }, make("span", { class: "name" }, chosen.has(label) ? "✓ " : "", label), make("span", { class: "share" }, percent(own.probabilities[label])), make("span", { class: "track", "aria-hidden": "true" }, fill));
      })));
  }));
});

// ---- tabs and beginning -------------------------------------------------------------------------

const go = guarded(async (tab) => {
  set({ tab });
  for (const name of TABS) {
    const own = name === tab;
    find(`tab-${name}`).setAttribute("aria-selected", String(own));
    find(`tab-${name}`).tabIndex = own ? 0 : -1;
    find(name).hidden = !own;
  }
  await backend.tabs[tab]();
});
function drawModel() {
  const one = model();
  find("model").replaceChildren(...models.map((each) => make("option", { value: each.name, selected: each === one }, each.name)));
  find("model-choice").hidden = models.length < 2;
  find("facts").textContent = `${one.name}: ${count(one.labels.length, "label")}, ${one.kind.replace("zlpr_", "")} model, decides by “${one.rule}”`;
  putInto(find("label-list"), one.labels.map((name) => make("option", { value: name })));
  find("save-name").value = `${one.name}-cuts`;
  document.title = `${one.name} · zlpr`;
}
const start = guarded(async () => {
  models = (await backend.json("models")).models;
  if (!models.some((one) => one.name === state.model)) state.model = "";
  cuts = null;
  drawModel();
  await go(state.tab);
});

function listen() {
  find("privacy").textContent = backend.privacy;
  for (const tab of TABS) find(`tab-${tab}`).addEventListener("click", () => go(tab));
  find("tabs").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -TABS.indexOf(state.tab), End: TABS.length - 1 - TABS.indexOf(state.tab) }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = TABS[(TABS.indexOf(state.tab) + step + TABS.length) % TABS.length];
    go(next);
    find(`tab-${next}`).focus();
  });
  find("bars").addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const row = document.activeElement.closest("li"), next = event.key === "ArrowDown" ? row?.nextElementSibling : row?.previousElementSibling;
    if (next) { event.preventDefault(); next.firstElementChild.focus(); }
  });
  const askSoon = debounced(ask, 200), askBothSoon = debounced(askBoth, 200);
  find("text").addEventListener("input", () => { find("compare-text").value = find("text").value; askSoon(); });
  find("compare-text").addEventListener("input", () => { find("text").value = find("compare-text").value; askBothSoon(); });
  find("clear").addEventListener("click", () => { setText(""); ask(); find("text").focus(); });
  find("more").addEventListener("click", () => { allBars = true; drawBars(); });
  find("copy-with-text").addEventListener("click", (event) => copy(link({ text: find("text").value }), event.target));
  find("copy-link").addEventListener("click", (event) => copy(link(), event.target));
  find("model").addEventListener("change", () => { set({ model: find("model").value, t: "", label: "", each: "" }); chosenLabel = ""; cuts = null; drawModel(); go(state.tab); });
  find("other").addEventListener("change", () => { set({ other: find("other").value }); go("compare"); });
  find("cut").addEventListener("input", moveCut);
  for (const input of document.querySelectorAll("input[name=cuts]")) input.addEventListener("change", () => { set({ each: input.value === "each" ? "1" : "" }); if (!state.each) moveCut(); filterEach(); drawFigures(); });
  find("own-cuts").addEventListener("click", guarded(async () => {
    const own = cuts.about.thresholds ?? new Array(cuts.cuts.length).fill(0);
    own.forEach((cut, label) => cuts.move(label, cut));
    set({ t: "", each: own.every((cut) => cut === own[0]) ? "" : "1" });
    await drawThreshold();
  }));
  find("each-filter").addEventListener("input", filterEach);
  find("save").addEventListener("submit", (event) => { event.preventDefault(); saveRule(); });
  find("error-filters").addEventListener("submit", (event) => event.preventDefault());
  find("error-view").addEventListener("change", () => { set({ view: find("error-view").value === "doubtful" ? "doubtful" : "" }); filterErrors(); });
  find("error-label").addEventListener("input", () => { set({ label: find("error-label").value }); filterErrors(); });
  find("error-kind").addEventListener("change", () => { set({ kind: find("error-kind").value }); filterErrors(); });
  find("error-least").addEventListener("input", frame(() => { set({ least: Number(find("error-least").value) ? find("error-least").value : "" }); filterErrors(); }));
  find("error-csv").addEventListener("click", downloadErrors);
  find("label-filter").addEventListener("input", sortLabels);
  find("sample-close").addEventListener("click", () => find("sample").close());
  addEventListener("hashchange", () => { readHash(); cuts = null; drawModel(); go(state.tab); });
}
listen();
readHash();
start();
