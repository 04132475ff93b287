// Answers the page in the place of a server, from `globalThis.zlprModel` (model.js), which
// `zlpr.serving.static_page` writes. The numbers are the package's: TF-IDF as `zlpr.serving.onnx` has it.
"use strict";

(() => {
const held = globalThis.zlprModel;
const unpacked = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
const weights = new Float32Array(unpacked(held.weight));  // (features, labels), row by row
const columns = new Map(held.view.terms.map((term, column) => [term, column]));
const WORD = held.view.symbols === "word"  // Python's \w\w+, and emoji where the vocabulary has them
  ? /[\p{L}\p{N}_]{2,}/gu
  : /[\p{L}\p{N}_]{2,}|[\u2600-\u27bf\u{1f1e6}-\u{1faff}]/gu;
const SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;  // Python's \s
const LETTERS_PER_WORD = 20;

// The words of a text in lower case, each with its place as [start, end) in characters of the text.
function wordsOf(text) {
  const origins = [];  // of each UTF-16 unit of the text in lower case: the character it comes from
  Array.from(text).forEach((letter, place) => { for (let unit = 0; unit < letter.toLowerCase().length; unit++) origins.push(place); });
  return Array.from(text.toLowerCase().matchAll(WORD), (found) => ({ word: found[0], start: origins[found.index], end: origins[found.index + found[0].length - 1] + 1 }));
}
// The known n-grams of a text: column, term, places, and a value; the values have length one.
function features(text) {
  const found = new Map(), words = wordsOf(text), [shortest, longest] = held.view.ngrams;
  words.forEach((first, start) => {
    for (let size = shortest; size <= longest && start + size <= words.length; size++) {
      const term = words.slice(start, start + size).map((one) => one.word).join(" "), column = columns.get(term);
      if (column === undefined) continue;
      if (!found.has(column)) found.set(column, { column, term, places: [] });
      found.get(column).places.push([first.start, words[start + size - 1].end]);
    }
  });
  const known = [...found.values()];
  for (const one of known) one.value = (1 + Math.log(one.places.length)) * (1 + Math.log((1 + held.view.num_texts) / (1 + held.view.counts[one.column])));
  const length = Math.sqrt(known.reduce((sum, one) => sum + one.value * one.value, 0)) || 1;
  for (const one of known) one.value /= length;
  return known;
}
const added = (one, label) => one.value * weights[one.column * held.bias.length + label];
function scoresOf(text) {
  const known = features(text);
  return held.bias.map((bias, label) => known.reduce((sum, one) => sum + added(one, label), bias));
}
function probability(score, label) {
  const { link_scale: scale, temperature, bias } = held.calibrator;
  const own = (value) => (Array.isArray(value) ? value[label] : value);
  return 1 / (1 + Math.exp(-((score * scale) / own(temperature) + own(bias))));
}
const isPredicted = (score, label) => Math.fround(score) > Math.fround(held.model.cuts[label]);

function predict(text) {
  const scores = scoresOf(text), names = held.model.labels, by = (value) => Object.fromEntries(names.map((name, label) => [name, value(label)]));
  return { labels: names.filter((_, label) => isPredicted(scores[label], label)), scores: by((label) => scores[label]), probabilities: by((label) => probability(scores[label], label)) };
}

function explainLabel(text, name, top) {
  const label = held.model.labels.indexOf(name), score = scoresOf(text)[label];
  const parts = features(text).map((one) => ({ part: one.term, places: one.places, value: added(one, label) }));
  parts.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  return { label: name, score, predicted: isPredicted(score, label), bias: held.bias[label], contributions: parts.slice(0, top), words: spread(text, parts), elsewhere: [], approximates: "" };
}
// What each word adds: a part's value, shared evenly by the letters it stands at.
function spread(text, parts) {
  const letters = Array.from(text), shares = new Float64Array(letters.length);
  for (const part of parts) {
    const own = part.places.flatMap(([start, end]) => Array.from({ length: end - start }, (_, step) => start + step)).filter((place) => !SPACE.test(letters[place]));
    for (const place of own) shares[place] += part.value / own.length;
  }
  return stretches(letters).map(([start, end]) => ({ start, end, value: shares.subarray(start, end).reduce((sum, share) => sum + share, 0) }));
}
// What stands between spaces, or single letters where that is too long to be words.
function stretches(letters) {
  const found = [];
  let size = 0;
  letters.forEach((letter, place) => {
    if (SPACE.test(letter)) return;
    size++;
    if (found.length && found.at(-1)[1] === place) found.at(-1)[1]++; else found.push([place, place + 1]);
  });
  return size > LETTERS_PER_WORD * found.length ? found.flatMap(([start, end]) => Array.from({ length: end - start }, (_, step) => [start + step, start + step + 1])) : found;
}

const framed = window.parent !== window;
globalThis.zlprBackend = {
  bars: framed && window.innerWidth < 600 ? 5 : 30,  // on a phone the page around it goes on below
  tabs: { try: () => ask(), threshold: () => drawThreshold() },
  privacy: "Your text never leaves this page: the model is part of it and is computed in your browser; nothing is sent, and no text is kept in the address.",
  async json(path, body) {
    switch (path.split("?")[0]) {
      case "models": return { models: [held.model] };
      case "predict": return { answers: body.texts.map(predict) };
      case "explain": return { explanations: [explainLabel(body.text, body.label, body.top)] };
      case "review": return held.review;
    }
    throw new Error(`${path}: needs a server`);
  },
  async bytes(path) {
    if (path.split("?")[0] === "review/cells") return unpacked(held.cells);
    throw new Error(`${path}: needs a server`);
  },
};

for (const name of ["errors", "labels", "compare"]) document.getElementById(`tab-${name}`).remove();
document.getElementById("text").value = held.example;

// Within another page: as tall as what it holds, and as light or dark as the page around it.
if (framed) {
  document.documentElement.classList.add("framed");
  const tell = () => window.parent.postMessage({ zlprHeight: Math.ceil(document.body.getBoundingClientRect().height) }, "*");
  new ResizeObserver(tell).observe(document.body);
  window.addEventListener("message", (event) => {
    if (event.source === window.parent && ["light", "dark"].includes(event.data?.zlprScheme)) document.documentElement.style.colorScheme = event.data.zlprScheme;
  });
}
})();
