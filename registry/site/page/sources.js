// The page Sources: who measured what, under which licence, and where it is.

import { element, outsideLink } from "./elements.js";
import { readJson } from "./files.js";
import { formatCount } from "./format.js";
import { formatRoute } from "./route.js";
import { buildTable } from "./table.js";

export const title = "Sources";

const COLUMNS = [
  { key: "title", title: "Source", of: buildSource },
  { key: "n", title: "Observations", of: (row) => exploreLink(row), number: true },
  { key: "n_oom", title: "Out of memory", of: (row) => formatCount(row.n_oom ?? 0), number: true },
  { key: "licence", title: "Licence", of: (row) => row.licence ?? "none stated" },
  { key: "publisher", title: "Publisher", of: (row) => row.publisher ?? "" },
  { key: "published_on", title: "Published", of: (row) => row.published_on ?? "" },
  { key: "cards", title: "Cards", of: (row) => row.cards ?? "" },
  { key: "methods", title: "Methods", of: (row) => row.methods ?? "" },
];

export async function show(main) {
  const sources = await readJson("data/sources.json");
  main.replaceChildren(
    element("h1", {}, title),
    element("p", { class: "quiet" }, "Cite the sources of the figures that you use; each keeps its own licence."),
    buildTable(sources, COLUMNS, { caption: "All sources", first: 500, wraps: true }),
  );
}

function buildSource(row) {
  return element(
    "div",
    { class: "source" },
    outsideLink(row.url, row.title ?? row.source_id),
    element("div", { class: "quiet" }, row.source_id),
    row.note ? element("details", {}, element("summary", {}, "What to know"), element("p", {}, row.note)) : null,
  );
}

function exploreLink(row) {
  const choices = new Map([["source_id", [row.source_id]]]);
  return element("a", { href: formatRoute("explore", choices) }, formatCount(row.n));
}

/** Return the source with an id, or null. */
export async function findSource(id) {
  const sources = await readJson("data/sources.json");
  return sources.find((source) => source.source_id === id) ?? null;
}
