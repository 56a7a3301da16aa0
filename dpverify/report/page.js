"use strict";
// The table is sorted and filtered here; without scripts it is whole, in the order of the file.
const table = document.getElementById("verdicts");
const body = table.tBodies[0];
const rows = [...body.rows];

function filterForm() {
  const form = document.getElementById("filter");
  form.innerHTML = `<label>Search in units<input type="search" name="text"></label>
    <label>Outcome<select name="outcome"><option value="">all</option><option>refuted</option>
    <option>powerless</option><option>invalid</option><option>held</option></select></label>
    <output role="status"></output>`;
  const { text, outcome } = form.elements;
  const apply = () => {
    const word = text.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const kept = (!outcome.value || row.dataset.outcome === outcome.value) &&
        row.textContent.toLowerCase().includes(word);
      row.hidden = !kept;
      shown += kept;
    }
    form.querySelector("output").textContent = `${shown} of ${rows.length} units`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  apply();
}

function sortable(head, column) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  head.replaceChildren(button);
  button.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => row.cells[column].textContent;
    const order = new Intl.Collator("en", { numeric: true });
    const sorted = [...rows].sort((a, b) => order.compare(key(a), key(b)));
    body.append(...(down ? sorted.reverse() : sorted));
  });
}

filterForm();
[...table.tHead.rows[0].cells].forEach(sortable);

// What is folded, but for numbers, is printed unfolded, also by browsers whose style sheets cannot ask for it.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open], .numbers)")];
  for (const one of folded) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of folded) one.open = false;
});
