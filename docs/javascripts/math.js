// Sets the formulas of a page with KaTeX, which lies beside this script: no reader's font, no network.
// pymdownx.arithmatex leaves them as \(…\) and \[…\] in marked elements.
"use strict";

(() => {
const folder = new URL("../assets/katex/", document.currentScript.src);

function setFormulas() {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const text = element.textContent.trim();
    katex.render(text.slice(2, -2), element, { displayMode: text.startsWith("\\["), throwOnError: true });
  }
  document.documentElement.dataset.math = "set";
}

document.addEventListener("DOMContentLoaded", () => {
  if (!document.querySelector(".arithmatex")) return;
  const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("katex.min.css", folder) });
  const script = Object.assign(document.createElement("script"), { src: new URL("katex.min.js", folder), onload: setFormulas });
  document.head.append(style, script);
});
})();
