// The page Regressions: one configuration in one framework over its releases.

import { Chart } from "./chart.js";
import { element, labelledSelect } from "./elements.js";
import { COLUMNS, TITLES } from "./fields.js";
import { formatCount, formatNumber } from "./format.js";
import { pictureSpec, readPictures } from "./pictures.js";
import { choiceOf, formatRoute, keepChoices } from "./route.js";
import { readRows } from "./rows.js";
import { describePoint } from "./scatter.js";
import { buildTable, sortRows } from "./table.js";

export const title = "Regressions";

/** The figures that can change, and whether more is better. */
const FIGURES = { seconds_per_step: -1, tokens_per_second: 1, samples_per_second: 1, peak_memory_bytes_per_gpu: -1 };

export async function show(main, { choices }) {
  const rows = (await readRows()).filter((row) => row.series !== null);
  const all = collectSeries(rows);
  if (!all.length) {
    main.replaceChildren(element("h1", {}, title), element("p", {}, "No configuration has been measured with two releases yet."));
    return;
  }
  const chart = new Chart("One figure of one configuration over releases", {
    tooltip: describePoint,
    onPick: (point) => { if (point.observation_id) location.hash = formatRoute("observation", new Map(), point.observation_id); },
  });
  const parts = { chart, controls: element("div", { class: "controls" }), runs: element("div"), list: element("div"), heading: element("h2") };
  const update = () => refresh(all, choices, parts);
  main.replaceChildren(
    element("h1", {}, title),
    element("p", { class: "quiet" }, "The same configuration, measured with several releases of one framework. Machines and drivers may differ too: a step is a reason to look, not a verdict. registry compare judges two releases."),
    parts.controls, parts.heading, chart.place, parts.runs,
    element("h2", {}, "All configurations, the largest loss first"), parts.list,
  );
  await update();
}

/** Return each configuration and figure with two releases: medians, and what changed at last. */
function collectSeries(rows) {
  const groups = new Map();
  for (const row of rows) groups.set(row.series, [...(groups.get(row.series) ?? []), row]);
  const found = [];
  for (const [series, runs] of groups) {
    for (const [figure, better] of Object.entries(FIGURES)) {
      const releases = collectReleases(runs, figure);
      if (releases.length < 2) continue;
      const [before, last] = releases.slice(-2);
      const change = last.median / before.median - 1;
      found.push({ ...runs[0], series, figure, releases, runs, change, loss: -better * change, n: releases.length });
    }
  }
  return found.sort((a, b) => b.loss - a.loss || a.series.localeCompare(b.series));
}

/** Return the releases with a figure, in their order. */
function collectReleases(runs, figure) {
  const releases = new Map();
  for (const row of runs) {
    if (row[figure] === null || row.outcome !== "ok") continue;
    releases.set(row.release_order, [...(releases.get(row.release_order) ?? []), row]);
  }
  return [...releases]
    .sort((a, b) => a[0] - b[0])
    .map(([, some]) => ({ name: some[0].release, median: medianOf(some.map((row) => row[figure])) }));
}

function medianOf(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const nameOf = (one) => `${one.model_id ?? "a model"} on ${one.gpu_id ?? "a card"}: ${one.configuration}`;

async function refresh(all, choices, parts) {
  const figure = choiceOf(choices, "figure", all[0].figure);
  const some = all.filter((one) => one.figure === figure);
  const shown = some.find((one) => String(one.series) === choiceOf(choices, "series", "")) ?? some[0] ?? all[0];
  keepChoices("regressions", choices);
  const choose = (name) => (value) => {
    choices.set(name, [value]);
    refresh(all, choices, parts);
  };
  const figures = Object.entries(FIGURES).filter(([name]) => all.some((one) => one.figure === name)).map(([name]) => [name, TITLES[name]]);
  const focused = document.activeElement?.id;
  parts.controls.replaceChildren(
    labelledSelect("Figure", "figure", figures, shown.figure, choose("figure")),
    labelledSelect("Configuration", "series", some.map((one) => [one.series, nameOf(one)]), shown.series, choose("series")),
  );
  if (focused) document.getElementById(focused)?.focus();
  parts.heading.textContent = nameOf(shown);
  const ordered = sortRows(shown.runs, "release_order", false);
  const pictures = await readPictures();
  await parts.chart.draw((width) => pictureSpec(pictures, "history", { y: shown.figure }, 1, width), { rows: ordered.map((row) => ({ ...row })) });
  parts.runs.replaceChildren(buildTable(ordered, [COLUMNS[0], RELEASE, ...COLUMNS.slice(1)], { caption: "The runs of this configuration", first: 10 }));
  parts.list.replaceChildren(buildTable(some, listColumns(), { caption: "Change from the last release but one to the last" }));
}

const RELEASE = { key: "release_order", title: "Release", of: (row) => row.release };

function listColumns() {
  const link = (one) => element("a", { href: formatRoute("regressions", new Map([["figure", [one.figure]], ["series", [one.series]]])) }, nameOf(one));
  return [
    { key: "series", title: "Configuration", of: link },
    { key: "n", title: "Releases", of: (one) => formatCount(one.n), number: true },
    { key: "before", title: "Last but one", of: (one) => one.releases.at(-2).name },
    { key: "last", title: "Last", of: (one) => one.releases.at(-1).name },
    { key: "change", title: "Change", of: (one) => `${one.change > 0 ? "+" : ""}${formatNumber(Math.round(1000 * one.change) / 10)} %`, number: true },
  ];
}
