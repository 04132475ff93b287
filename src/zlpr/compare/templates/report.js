"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const direction = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
      heads.forEach((other) => other.setAttribute("aria-sort", other === head ? direction : "none"));
      const sign = direction === "ascending" ? 1 : -1;
      const key = (row) => {
        const cell = row.cells[column];
        if (column === 0) return cell.textContent.trim();
        return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
      };
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const x = key(a), y = key(b);
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
      });
      table.tBodies[0].append(...rows);
    });
  });
}
const openTarget = () => {
  const section = document.getElementById(location.hash.slice(1));
  const details = section && section.querySelector("details.contest");
  if (details) details.open = true;
};
addEventListener("hashchange", openTarget);
openTarget();
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
