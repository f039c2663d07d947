// The filters of the matrix of kernels. The address after # remembers them.
"use strict";
{
  const form = document.getElementById("filters");
  const rows = [...document.querySelectorAll(".matrix tbody tr")];
  const names = ["text", "family", "backend", "dtype", "shows"];

  // Whether a cell is one that the filters ask for: a backend that has the kernel, on the dtype.
  function runs(cell, dtype) {
    if (cell.dataset.has !== "1") return false;
    const listed = cell.dataset.runs.split(" ");
    return !dtype || listed.includes(dtype) || listed.includes("yes");
  }

  function apply() {
    const wanted = Object.fromEntries(names.map(name => [name, form.elements[name].value]));
    const text = wanted.text.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const cells = [...row.cells].slice(1).filter(cell => !wanted.backend || cell.dataset.backend === wanted.backend);
      const there = cells.filter(cell => runs(cell, wanted.dtype)).length;
      // Without a backend, one that runs it is enough, and one that does not is a gap.
      const fits = wanted.shows ? there < cells.length : there > 0;
      const isShown = fits && row.dataset.kernel.toLowerCase().includes(text)
        && (!wanted.family || row.dataset.family === wanted.family);
      row.hidden = !isShown;
      shown += isShown;
    }
    for (const cell of document.querySelectorAll(".matrix [data-backend]")) {
      cell.hidden = wanted.backend !== "" && cell.dataset.backend !== wanted.backend;
    }
    document.querySelectorAll(".matrix i").forEach(i => i.classList.toggle("other", wanted.dtype !== "" && !i.classList.contains(wanted.dtype)));
    document.getElementById("count").textContent = `${shown} of ${rows.length} kernels`;
    const set = names.filter(name => wanted[name]).map(name => [name, wanted[name]]);
    const address = new URLSearchParams(set).toString();
    history.replaceState(null, "", address ? `#${address}` : location.pathname + location.search);
  }

  function restore() {
    const given = new URLSearchParams(location.hash.slice(1));
    for (const name of names) form.elements[name].value = given.get(name) ?? "";
    for (const select of form.querySelectorAll("select")) if (select.selectedIndex < 0) select.value = "";
    apply();
  }

  form.addEventListener("input", apply);
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  addEventListener("hashchange", restore);
  restore();
}
