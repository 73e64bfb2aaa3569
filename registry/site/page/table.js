// A table that sorts by its columns and shows a part of its rows at first.

import { element } from "./elements.js";
import { formatCount } from "./format.js";
import { formatRoute } from "./route.js";

const FIRST = 50;

/** Return a table of rows; a button shows more of them. */
export function buildTable(rows, columns, { caption, first = FIRST, wraps = false } = {}) {
  const body = element("tbody");
  const more = element("button", { type: "button" });
  const state = { rows, shown: first, sorted: null };
  const headings = columns.map((column) => buildHeading(column, state, refresh));
  more.addEventListener("click", () => {
    state.shown += 4 * first;
    refresh();
  });
  function refresh() {
    const { rows: all, shown } = state;
    body.replaceChildren(...all.slice(0, shown).map((row) => buildRow(row, columns)));
    more.hidden = all.length <= shown;
    more.textContent = `Show more (${formatCount(Math.max(all.length - shown, 0))} left)`;
    headings.forEach((heading, i) => markSorted(heading, columns[i], state.sorted));
  }
  refresh();
  const head = element("thead", {}, element("tr", {}, headings));
  const table = element("table", { class: wraps ? null : "narrow" }, element("caption", {}, caption), head, body);
  const scroll = { class: "scroll", tabindex: "0", role: "region", "aria-label": caption };
  return element("div", {}, element("div", scroll, table), more);
}

function buildHeading(column, state, refresh) {
  const button = element("button", { type: "button", class: "sort" }, column.title);
  button.addEventListener("click", () => {
    const descending = state.sorted?.key === column.key ? !state.sorted.descending : column.number;
    state.sorted = { key: column.key, descending };
    state.rows = sortRows(state.rows, column.key, descending);
    refresh();
  });
  return element("th", { scope: "col", class: column.number ? "number" : null }, button);
}

function markSorted(heading, column, sorted) {
  if (sorted?.key !== column.key) heading.removeAttribute("aria-sort");
  else heading.setAttribute("aria-sort", sorted.descending ? "descending" : "ascending");
}

/** Return rows in the order of a column; those without a value come last. */
export function sortRows(rows, key, descending) {
  const sign = descending ? -1 : 1;
  const isEmpty = (value) => value === null || value === undefined || value === "";
  return [...rows].sort((a, b) => {
    const [left, right] = [a[key], b[key]];
    if (isEmpty(left) || isEmpty(right)) return isEmpty(left) - isEmpty(right);
    return sign * (typeof left === "string" ? left.localeCompare(right) : left - right);
  });
}

function buildRow(row, columns) {
  return element("tr", {}, columns.map((column) => buildCell(row, column)));
}

function buildCell(row, column) {
  const content = column.of(row);
  const shown = column.key === "observation_id" ? observationLink(content) : content;
  return element("td", { class: column.number ? "number" : null }, shown);
}

/** Return the link to an observation's page. */
export function observationLink(id) {
  return element("a", { href: formatRoute("observation", new Map(), id) }, id);
}
