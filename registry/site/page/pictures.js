// The charts that the command `registry plot` draws too, with a panel for each model and card.

import { isDark } from "./chart.js";
import { isBelieved } from "./fields.js";
import { readJson } from "./files.js";

let loaded = null;

/** Return what can be drawn: kinds with the columns of their axes, and their specifications. */
export function readPictures() {
  loaded ??= readJson("data/pictures.json");
  return loaded;
}

/** What a row must have for a kind of picture. */
const NEEDED = {
  memory: (row, { x }) => row[x] !== null && hasPeak(row),
  speed: (row, { x, y }) => row[x] !== null && row[y] !== null,
  pareto: (row, { y }) => row[y] !== null && row.peak_memory_bytes_per_gpu !== null,
  fits: (row) => row.seq_len !== null && row.micro_batch_size !== null && hasPeak(row),
};

const hasPeak = (row) =>
  (row.outcome === "oom" ? row.gpu_memory_bytes : row.peak_memory_bytes_per_gpu) !== null;

/** Return the rows that a picture draws; it cannot say that one of its points is hard to believe. */
export const selectDrawable = (rows, kind, axes) => rows.filter((row) => isBelieved(row) && NEEDED[kind](row, axes));

/** Return how many panels rows make: pairs of a model and a card. */
export const countPanels = (rows) =>
  new Set(rows.map((row) => JSON.stringify([row.model_id, row.gpu_id]))).size;

/** Width below which legends stand under the chart, least width of a panel, and room beside it. */
const [NARROW, LEAST, AXIS, LEGEND] = [700, 240, 64, 200];

/** Return the specification of a picture for a width and a number of panels. */
export function pictureSpec(pictures, kind, axes, panels, width) {
  const known = pictures.specifications[isDark() ? "dark" : "light"][kind];
  const key = [axes.x, axes.y].filter(Boolean).join(",");
  const spec = structuredClone(known[key] ?? Object.values(known)[0]);
  const free = width - (width >= NARROW ? LEGEND : 0);
  spec.columns = Math.max(1, Math.min(panels, Math.floor(free / (LEAST + AXIS))));
  const panel = Math.max(120, Math.floor(free / spec.columns) - AXIS);
  const height = Math.min(420, Math.max(180, Math.round(0.6 * panel)));
  for (const layer of spec.spec.layer) Object.assign(layer, { width: panel, height });
  spec.facet.header.labelLimit = panel;
  if (width < NARROW) Object.assign(spec.config.legend, { orient: "bottom", columns: 2, direction: "vertical" });
  return spec;
}
