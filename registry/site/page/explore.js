// The page Explore: every observation as a dot, with filters, and the same rows as a table.

import { Chart } from "./chart.js";
import { downloadButtons } from "./download.js";
import { element, labelledSelect } from "./elements.js";
import { Facets, filterRows } from "./facets.js";
import { ALONG, COLOURS, COLUMNS, FACETS, MEASURES, TITLES } from "./fields.js";
import { formatCount } from "./format.js";
import { countPanels, pictureSpec, readPictures, selectDrawable } from "./pictures.js";
import { choiceOf, formatRoute, keepChoices } from "./route.js";
import { readRows } from "./rows.js";
import { FAILED, buildPoints, collectSpans, describePoint, mergeRare, scatterSpec } from "./scatter.js";
import { buildTable } from "./table.js";

export const title = "Explore";

/** Pictures: all observations in one, or those of `registry plot`, a panel for each model and card. */
const VIEWS = {
  all: "all in one chart",
  memory: "memory, a panel per model and card",
  speed: "speed, a panel per model and card",
  pareto: "speed over memory, a panel per model and card",
  fits: "what fits: length × batch, a panel per model and card",
};
const NAMES = Object.fromEntries(Object.keys(VIEWS).map((name) => [name, name]));

export async function show(main, { choices }) {
  const page = new Explore(await readRows(), choices);
  main.replaceChildren(
    element("h1", {}, title),
    element("p", { class: "quiet" }, "Every observation is one dot, as its source reports it; nothing is averaged. ",
      "Hollow dots were not measured by their source. A cross is a run that ran out of memory, at the memory of its card: it needed more than that."),
    element("div", { class: "beside" }, page.facets.panel, page.content),
  );
  await page.update();
}

class Explore {
  constructor(rows, choices) {
    Object.assign(this, { rows, choices, found: rows });
    this.chart = new Chart("Observations as dots; the table below lists the same ones", {
      tooltip: describePoint,
      onPick: (point) => {
        if (point.observation_id) location.hash = formatRoute("observation", new Map(), point.observation_id);
      },
    });
    this.controls = element("div", { class: "controls" });
    this.said = element("p", { class: "said", role: "status" });
    this.table = element("div");
    this.facets = new Facets(rows, choices, () => this.update());
    const downloads = downloadButtons(() => this.found.map(forFile));
    this.content = element("div", {}, this.controls, this.said, this.chart.place, downloads, this.table);
  }

  /** Return a choice where it is one of those that are known, else the first. */
  of(name, known) {
    const names = Object.keys(known);
    const chosen = choiceOf(this.choices, name, names[0]);
    return names.includes(chosen) ? chosen : names[0];
  }

  async update() {
    const started = performance.now();
    this.found = filterRows(this.rows, this.choices);
    const view = this.of("view", NAMES);
    if (view === "all") await this.drawAll();
    else await this.drawPanels(view);
    keepChoices("explore", this.choices);
    this.listRows();
    document.documentElement.dataset.tookMs = String(Math.round(performance.now() - started));
  }

  /** Return the rows that one panel may hold: of one objective that is chosen, else of fine-tuning. */
  poolable() {
    return this.choices.has("objective") ? this.found : this.found.filter((row) => row.is_finetuning);
  }

  leftOut() {
    return this.poolable().length === this.found.length ? ""
      : " Pretraining, reinforcement learning and made-up samples are left out: choose an objective to see them.";
  }

  /** List the rows that were found, unless the table has them already. */
  listRows() {
    const listed = JSON.stringify(FACETS.map(([name]) => this.choices.get(name)));
    if (this.listed === listed) return;
    this.listed = listed;
    this.table.replaceChildren(buildTable(this.found, COLUMNS, { caption: "The observations that pass the filters" }));
  }

  async drawAll() {
    const [x, y] = [this.of("x", ALONG), this.of("y", MEASURES)];
    const colourTitles = Object.fromEntries(COLOURS);
    const colour = this.of("colour", colourTitles);
    const scale = this.of("scale", SCALES);
    this.showControls([["Show", "y", titlesOf(MEASURES)], ["over", "x", titlesOf(ALONG)], ["Colour", "colour", COLOURS], ["Scale", "scale", Object.entries(SCALES)]]);
    const points = buildPoints(this.found, { x, y, colour });
    const colours = mergeRare(points, "colour", [...this.valuesOf(colour), ...(colour === "memory_kind" ? [FAILED] : [])]);
    if (ALONG[x].nominal) mergeRare(points, "x");
    const log = scale === "usual" ? MEASURES[y].log : scale === "log";
    const form = { x, y, colourTitle: colourTitles[colour], colours, log };
    await this.chart.draw((width) => scatterSpec(form, width), { rows: points, spans: collectSpans(points) });
    this.said.textContent = describe(this.found, points.map((point) => point.row));
  }

  async drawPanels(kind) {
    const pictures = await readPictures();
    const known = pictures.axes[kind];
    const axes = {};
    const controls = [];
    for (const [axis, label] of [["y", "Show"], ["x", "over"]]) {
      if (!known[axis]) continue;
      const titles = Object.fromEntries(known[axis].map((name) => [name, TITLES[name] ?? name]));
      axes[axis] = this.of(axis, titles);
      controls.push([label, axis, Object.entries(titles)]);
    }
    this.showControls(controls);
    const rows = selectDrawable(this.poolable(), kind, axes);
    const panels = countPanels(rows);
    const tooMany = panels > pictures.most_panels;
    this.chart.place.hidden = tooMany || !panels;
    this.said.textContent = describe(this.found, rows) + this.leftOut() +
      (tooMany ? ` That would be ${formatCount(panels)} panels: choose models and cards with the filters until there are ${pictures.most_panels} at most.` : "");
    if (this.chart.place.hidden) return;
    await this.chart.draw((width) => pictureSpec(pictures, kind, axes, panels, width), { rows: rows.map((row) => ({ ...row })) });
  }

  /** Return the values of a property in all observations, in a fixed order. */
  valuesOf(name) {
    this.values ??= {};
    this.values[name] ??= [...new Set(this.rows.map((row) => row[name]))].filter((value) => value !== null).sort();
    return this.values[name];
  }

  showControls(fields) {
    const choose = (name, usual) => (value) => {
      if (value === usual) this.choices.delete(name);
      else this.choices.set(name, [value]);
      this.update();
    };
    const all = [["Picture", "view", Object.entries(VIEWS)], ...fields];
    const focused = document.activeElement?.id;
    this.chart.place.hidden = false;
    this.controls.replaceChildren(...all.map(([label, name, options]) =>
      labelledSelect(label, name, options, this.of(name, Object.fromEntries(options)), choose(name, options[0][0]))));
    if (focused?.startsWith("select-")) document.getElementById(focused)?.focus();
  }
}

const SCALES = { usual: "usual", linear: "linear", log: "logarithmic" };

const titlesOf = (fields) => Object.entries(fields).map(([name, field]) => [name, field.title]);

function describe(found, drawn) {
  const count = (name) => new Set(drawn.map((row) => row[name])).size;
  const several = (n, one, many) => `${formatCount(n)} ${n === 1 ? one : many}`;
  const failed = drawn.filter((row) => row.outcome === "oom").length;
  const head = `${formatCount(drawn.length)} of ${several(found.length, "observation", "observations")} have both figures and are drawn`;
  if (!drawn.length) return `${head}.`;
  return `${head}${failed ? `, ${formatCount(failed)} of them out of memory` : ""}: ` +
    `${several(count("model_id"), "model", "models")} on ${several(count("gpu_id"), "kind of card", "kinds of card")}, ${several(count("source_id"), "source", "sources")}.`;
}

/** Return a row as it goes into a file. */
function forFile({ tokens_per_card: _a, tokens: _b, is_finetuning: _c, ...row }) {
  return row;
}
