// Gives the playground of the home page the height of what it holds, and this page's light or dark.
"use strict";

(() => {
const frame = document.getElementById("playground");
const tell = () => frame.contentWindow.postMessage({ zlprScheme: document.body.dataset.mdColorScheme === "slate" ? "dark" : "light" }, "*");
window.addEventListener("message", (event) => {
  const height = event.data?.zlprHeight;
  if (event.source !== frame.contentWindow || !Number.isFinite(height)) return;
  frame.style.height = `${height + 2}px`;  // and its border
  tell();
});
new MutationObserver(tell).observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
})();
