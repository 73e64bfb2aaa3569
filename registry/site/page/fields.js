// What can be drawn, filtered and listed: a name, a title with its unit, and how it is written.

import { formatGib, formatNumber, toGib } from "./format.js";

/** The lowest or highest reading of a total as that of one card, where it differs from the figure. */
function readingOf(row, total) {
  if (total === null || total === row.peak_memory_bytes) return null;
  return toGib((total * row.peak_memory_bytes_per_gpu) / row.peak_memory_bytes);
}

/** What lies along a chart's side. `of` gives the value that is drawn. */
export const MEASURES = {
  memory: {
    title: "peak memory per card (GiB)",
    of: (row) => toGib(row.outcome === "oom" ? row.gpu_memory_bytes : row.peak_memory_bytes_per_gpu),
    low: (row) => readingOf(row, row.peak_memory_bytes_low),
    high: (row) => readingOf(row, row.peak_memory_bytes_high),
    log: false,
  },
  tokens_per_card: { title: "tokens per second per card", of: (row) => row.tokens_per_card, log: true },
  tokens_per_second: { title: "tokens per second, all cards", of: (row) => row.tokens_per_second, log: true },
  samples_per_second: { title: "samples per second, all cards", of: (row) => row.samples_per_second, log: true },
  seconds_per_step: { title: "seconds per step", of: (row) => row.seconds_per_step, log: true },
};

export const ALONG = {
  seq_len: { title: "sequence length (tokens)", log: true },
  micro_batch_size: { title: "batch per card (samples)", log: true },
  tokens: { title: "tokens per micro-batch (length × batch)", log: true },
  n_gpus: { title: "cards", log: true },
  n_params: { title: "parameters of the model", log: true },
  method_label: { title: "method", nominal: true },
  gpu_id: { title: "card", nominal: true },
};

export const FACETS = [
  ["family", "Model family"],
  ["model_id", "Model"],
  ["gpu_id", "Card"],
  ["method_label", "Method"],
  ["source_id", "Source"],
  ["evidence", "Evidence"],
  ["memory_kind", "Kind of memory"],
  ["outcome", "Outcome"],
  ["objective", "Objective"],
  ["flags", "Flags"],
];

export const COLOURS = [
  ["memory_kind", "kind of memory"],
  ["method_label", "method"],
  ["gpu_id", "card"],
  ["model_id", "model"],
  ["family", "model family"],
  ["source_id", "source"],
];

/** Titles of the axes of pictures. */
export const TITLES = {
  seq_len: "sequence length",
  micro_batch_size: "batch per card",
  n_gpus: "cards",
  tokens_per_second: "tokens per second",
  samples_per_second: "samples per second",
  seconds_per_step: "seconds per step",
  peak_memory_bytes_per_gpu: "peak memory per card",
};

/** What stands for a value that the source does not state. */
export const UNSTATED = "not stated";

export const valueOf = (row, name) => row[name] ?? (name === "flags" ? "none" : UNSTATED);

/** Whether no flag says that a figure is hard to believe next to its neighbours. */
export const isBelieved = (row) => !row.flags?.split(", ").includes("suspect");

/** Columns of tables of observations: key, title, text, whether a number. */
export const COLUMNS = [
  { key: "observation_id", title: "Observation", of: (row) => row.observation_id },
  { key: "model_id", title: "Model", of: (row) => row.model_id ?? "" },
  { key: "method_label", title: "Method", of: (row) => row.method_label ?? "" },
  { key: "n_gpus", title: "Cards", of: (row) => formatNumber(row.n_gpus), number: true },
  { key: "gpu_id", title: "Card", of: (row) => row.gpu_id ?? "" },
  { key: "seq_len", title: "Length", of: (row) => formatNumber(row.seq_len), number: true },
  { key: "micro_batch_size", title: "Batch", of: (row) => formatNumber(row.micro_batch_size), number: true },
  { key: "outcome", title: "Outcome", of: (row) => row.outcome },
  { key: "peak_memory_bytes_per_gpu", title: "Peak per card", of: (row) => formatGib(row.peak_memory_bytes_per_gpu), number: true },
  { key: "memory_kind", title: "Kind", of: (row) => row.memory_kind ?? "" },
  { key: "tokens_per_second", title: "Tokens/s", of: (row) => formatNumber(row.tokens_per_second), number: true },
  { key: "samples_per_second", title: "Samples/s", of: (row) => formatNumber(row.samples_per_second), number: true },
  { key: "seconds_per_step", title: "s/step", of: (row) => formatNumber(row.seconds_per_step), number: true },
  { key: "framework_version", title: "Framework", of: (row) => [row.framework, row.framework_version].filter(Boolean).join(" ") },
  { key: "source_id", title: "Source", of: (row) => row.source_id },
  { key: "flags", title: "Flags", of: (row) => row.flags ?? "" },
];
