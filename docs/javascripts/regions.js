// What scrolls by itself (wide tables, formulas, code) can be reached and scrolled by keyboard.
"use strict";

(() => {
const WIDE = ".md-typeset__scrollwrap, .md-typeset .arithmatex, .md-typeset pre > code, .md-typeset pre";

function reach() {
  for (const element of document.querySelectorAll(WIDE)) {
    if (element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).overflowX !== "visible") element.tabIndex = 0;
  }
}

window.addEventListener("load", reach);
window.addEventListener("resize", reach);
})();
