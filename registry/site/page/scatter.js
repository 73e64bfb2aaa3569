// The chart of observations as dots: one for each, nothing averaged.

import { ALONG, MEASURES, UNSTATED, valueOf } from "./fields.js";
import { formatGib, formatNumber } from "./format.js";
import { paletteOf } from "./chart.js";

export const OOM = "out of memory (drawn at the memory of the card)";

/** Stands for the kind of memory of a run that has no figure of it. */
export const FAILED = "out of memory";

const STATES = ["measured", "claimed, estimated or required", OOM];

/** Return the points of rows: what is drawn of each that has both values. */
export function buildPoints(rows, { x, y, colour }) {
  const [along, measure] = [ALONG[x], MEASURES[y]];
  const points = [];
  for (const row of rows) {
    const failed = row.outcome === "oom";
    if (failed && y !== "memory") continue;
    const at = row[x];
    const value = measure.of(row);
    if (value === null || (at === null && !along.nominal) || (measure.log && value <= 0)) continue;
    points.push({
      observation_id: row.observation_id,
      x: along.nominal ? valueOf(row, x) : at,
      y: value,
      low: failed ? null : (measure.low?.(row) ?? null),
      high: failed ? null : (measure.high?.(row) ?? null),
      colour: failed && colour === "memory_kind" ? FAILED : valueOf(row, colour),
      state: stateOf(row),
      row,
    });
  }
  return points;
}

/** Return what is drawn of points whose figure lies between two: few are, and each costs time. */
export function collectSpans(points) {
  return points
    .filter(({ low, high }) => low !== null || high !== null)
    .map(({ x, y, low, high, colour }) => ({ x, from: low ?? y, to: high ?? y, colour }));
}

function stateOf(row) {
  if (row.outcome === "oom") return OOM;
  return row.evidence === "measured" ? STATES[0] : STATES[1];
}

/** Return the most frequent values of points, so many that each can have a colour or a place. */
export function collectFrequent(points, name, most) {
  const counts = new Map();
  for (const point of points) counts.set(point[name], (counts.get(point[name]) ?? 0) + 1);
  const ranked = [...counts].sort((a, b) => b[1] - a[1] || String(a[0]).localeCompare(String(b[0])));
  return ranked.slice(0, most).map(([value]) => value);
}

export const OTHERS = "all others";

/** Name what is not frequent "all others"; return the names in their order. */
export function mergeRare(points, name, all = []) {
  const most = paletteOf().length - 1;
  if (all.length && all.length <= most && points.every((point) => all.includes(point[name]))) return all;
  const frequent = collectFrequent(points, name, most);
  const kept = new Set(frequent);
  if (points.every((point) => kept.has(point[name]))) return frequent.toSorted();
  for (const point of points) if (!kept.has(point[name])) point[name] = OTHERS;
  return [...frequent, OTHERS];
}

/** Return the specification of the chart. */
export function scatterSpec({ x, y, colourTitle, colours, log }, width) {
  const [along, measure] = [ALONG[x], MEASURES[y]];
  const palette = paletteOf();
  const range = colours.map((name, i) => (name === OTHERS ? palette.at(-1) : palette[i]));
  const encodedX = along.nominal
    ? { field: "x", type: "nominal", title: along.title, sort: "-y", axis: { labelAngle: -40, labelLimit: 120 } }
    : { field: "x", type: "quantitative", title: along.title, scale: { type: "log", base: 2, nice: false }, axis: { format: ",d", labelOverlap: "greedy", labelSeparation: 8, tickCount: 8 } };
  const encodedY = {
    field: "y", type: "quantitative", title: measure.title,
    scale: log ? { type: "log" } : { zero: true },
    axis: log ? { format: "~s" } : {},
  };
  return {
    width,
    height: 420,
    autosize: { type: "fit", contains: "padding" },
    data: { name: "rows" },
    layer: [
      {
        data: { name: "spans" },
        mark: { type: "rule", opacity: 0.5 },
        encoding: {
          x: encodedX,
          y: { field: "from", type: "quantitative" },
          y2: { field: "to" },
          color: colourOf(colours, range, colourTitle),
        },
      },
      {
        mark: { type: "point", size: 42, opacity: 0.75, strokeWidth: 1.6, cursor: "pointer" },
        encoding: {
          x: encodedX,
          y: encodedY,
          color: colourOf(colours, range, colourTitle),
          fill: {
            condition: { test: `datum.state == '${STATES[0]}'`, ...colourOf(colours, range, colourTitle) },
            value: "transparent",
          },
          shape: {
            field: "state", type: "nominal", title: null,
            scale: { domain: STATES, range: ["circle", "circle", CROSS] },
            legend: { orient: "bottom", direction: "horizontal", columns: 1, values: [OOM], labelLimit: 320 },
          },
        },
      },
    ],
  };
}

const CROSS = "M-1,-1L1,1M-1,1L1,-1";

function colourOf(domain, range, title) {
  const legend = { orient: "bottom", direction: "horizontal", columns: 2, title, symbolType: "circle", symbolOpacity: 1 };
  return { field: "colour", type: "nominal", title, scale: { domain, range }, legend };
}

/** Return what the box beside the pointer says of a point. */
export function describePoint(point) {
  const row = point.row ?? point;
  if (!row.observation_id) return null;
  return [
    ["observation", row.observation_id],
    ["model", row.model_id],
    ["method", row.method_label],
    ["on", row.gpu_id ? `${row.n_gpus ?? "?"} × ${row.gpu_id}` : UNSTATED],
    ["length × batch", `${formatNumber(row.seq_len) || "?"} × ${formatNumber(row.micro_batch_size) || "?"}`],
    ["outcome", row.outcome === "oom" ? `out of memory (the card has ${formatGib(row.gpu_memory_bytes)})` : row.outcome],
    ["peak per card", row.peak_memory_bytes_per_gpu === null ? "" : `${formatGib(row.peak_memory_bytes_per_gpu)} (${row.memory_kind})`],
    ["tokens/s", formatNumber(row.tokens_per_second)],
    ["s/step", formatNumber(row.seconds_per_step)],
    ["evidence", row.evidence],
    ["flags", row.flags],
    ["source", row.source_id],
  ];
}
