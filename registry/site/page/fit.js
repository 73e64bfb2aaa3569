// The page "Will it fit?": a verdict with its interval, all cards, and the measured runs behind it.

import { Chart } from "./chart.js";
import { element, labelledSelect } from "./elements.js";
import { COLUMNS } from "./fields.js";
import { formatCount, formatGib, formatNumber, toGib } from "./format.js";
import { bandSpec } from "./band.js";
import { readGrid } from "./grid.js";
import { choiceOf, formatRoute, keepChoices } from "./route.js";
import { readRows } from "./rows.js";
import { buildPoints, describePoint } from "./scatter.js";
import { buildTable } from "./table.js";

export const title = "Will it fit?";

const SETTINGS = {
  open: "not stated",
  usual: "checkpointing, FlashAttention, AdamW, bf16, rank 16 on all layers, packed samples",
};
const COMMAND = {
  open: "",
  usual: " --checkpointing --attention flash2 --optimizer adamw --dtype bf16 --param-dtype bf16 --loss-kernel whole --packing",
};

export async function show(main, { choices }) {
  const [grid, rows] = await Promise.all([readGrid(), readRows()]);
  if (!grid.models.length) {
    main.replaceChildren(element("h1", {}, title), element("p", {}, "This site was made without predictions."));
    return;
  }
  const chart = new Chart("Predicted peak memory over sequence length, and measured runs", {
    tooltip: describePoint,
    onPick: (point) => { if (point.observation_id) location.hash = formatRoute("observation", new Map(), point.observation_id); },
  });
  const parts = { chart, verdict: element("div", { role: "status" }), cards: element("div"), runs: element("div") };
  const update = () => refresh({ grid, rows, choices, parts });
  main.replaceChildren(
    element("h1", {}, title),
    element("p", { class: "quiet" }, "How much memory of each card a fine-tuning run takes at its peak."),
    buildControls(grid, choices, update),
    parts.verdict,
    element("h2", {}, "Over the sequence length"),
    chart.place,
    parts.cards,
    parts.runs,
    describeMethod(grid),
  );
  await update();
}

const DEFAULTS = { model: "llama-3.1-8b", settings: "open", method: "QLoRA", cards: "1", length: "2048", batch: "1", card: "" };

/** Return what is asked: each choice where the grid has it, else what is usual. */
function readQuestion(grid, choices) {
  const known = { model: grid.ids, settings: grid.settings, method: grid.methods, cards: grid.n_gpus, length: grid.lengths, batch: grid.batches };
  const asked = {};
  for (const [name, values] of Object.entries(known)) {
    const find = (wanted) => values.find((value) => String(value) === wanted);
    asked[name] = find(choiceOf(choices, name, "")) ?? find(DEFAULTS[name]) ?? values[0];
  }
  const card = grid.cards.find((one) => one.id === choiceOf(choices, "card", ""));
  return { ...asked, nGpus: asked.cards, card };
}

function buildControls(grid, choices, update) {
  const asked = readQuestion(grid, choices);
  const choose = (name) => (value) => {
    if (value === DEFAULTS[name]) choices.delete(name);
    else choices.set(name, [value]);
    update();
  };
  const plain = (values) => values.map((value) => [value, typeof value === "number" ? formatCount(value) : value]);
  const cards = [["", "any card"], ...grid.cards.map((card) => [card.id, `${card.id} (${formatGib(card.memory)})`])];
  return element(
    "div",
    { class: "controls" },
    labelledSelect("Model", "model", plain(grid.ids), asked.model, choose("model")),
    labelledSelect("Method", "method", plain(grid.methods), asked.method, choose("method")),
    labelledSelect("Length (tokens)", "length", plain(grid.lengths), asked.length, choose("length")),
    labelledSelect("Batch per card", "batch", plain(grid.batches), asked.batch, choose("batch")),
    labelledSelect("Cards", "cards", plain(grid.n_gpus), asked.cards, choose("cards")),
    labelledSelect("Kind of card", "card", cards, asked.card?.id ?? "", choose("card")),
    labelledSelect("Other settings", "settings", grid.settings.map((name) => [name, SETTINGS[name]]), asked.settings, choose("settings")),
  );
}

async function refresh({ grid, rows, choices, parts }) {
  const started = performance.now();
  const asked = readQuestion(grid, choices);
  keepChoices("fit", choices);
  const figure = grid.find(asked);
  parts.verdict.replaceChildren(...buildVerdict(grid, asked, figure));
  parts.cards.replaceChildren(element("h2", {}, "All cards"), buildCards(grid, asked, figure));
  const runs = rows.filter((row) => isBehind(row, asked));
  parts.runs.replaceChildren(
    element("h2", {}, `Measured runs of ${asked.model} with ${asked.method} on ${asked.nGpus === 1 ? "1 card" : `${asked.nGpus} cards`}`),
    runs.length ? buildTable(runs, COLUMNS, { caption: "Measured runs", first: 20 }) : element("p", {}, "None yet: the figure rests on the formula and on other models."),
  );
  await drawBand(grid, asked, runs, parts.chart);
  document.documentElement.dataset.tookMs = String(Math.round(performance.now() - started));
}

function isBehind(row, asked) {
  return (
    row.model_id === asked.model &&
    row.method_label === asked.method &&
    row.n_gpus === asked.nGpus &&
    (row.outcome === "oom" || row.peak_memory_bytes_per_gpu !== null)
  );
}

/** Return a chance in percents as text, no more certain than it is. */
function formatChance(percents) {
  if (percents < 1) return "<1 %";
  return percents > 99 ? ">99 %" : `${percents} %`;
}

const MARKS = { fits: "\u2713", "does not fit": "\u2715", undecided: "?" };

function buildVerdict(grid, asked, figure) {
  const interval = `${formatGib(figure.value)} (90 % interval ${formatGib(figure.low)} to ${formatGib(figure.high)})`;
  const lines = [element("p", { class: "figure" }, "Peak per card: ", element("strong", {}, interval))];
  if (figure.enough > figure.high) {
    lines.push(element("p", {}, `It fits where ${formatGib(figure.enough)} can be used: some of what the question leaves open needs more than the interval.`));
  }
  if (asked.card) {
    const verdict = grid.judge(figure, asked.card.memory);
    lines.unshift(
      element("p", { class: `verdict ${verdict.replaceAll(" ", "-")}` },
        element("span", { "aria-hidden": "true" }, `${MARKS[verdict]} `), verdict,
        ` on ${asked.nGpus === 1 ? "" : `${asked.nGpus} × `}${asked.card.id} (${formatGib(asked.card.memory)}): the chance that it fits is ${formatChance(grid.chance(figure, asked.card.memory))}`),
    );
  }
  const warnings = [];
  const model = grid.models.find((one) => one.id === asked.model);
  if (model.longest && asked.length > model.longest) {
    warnings.push(element("p", {}, `The length is beyond the ${formatCount(model.longest)} positions of ${model.id}.`));
  }
  return [...lines, ...warnings, element("p", { class: "quiet" }, "The same at the command line, where more can be stated: ", element("code", { class: "command", tabindex: "0" }, commandOf(asked)))];
}

function commandOf(asked) {
  const adapters = asked.settings === "usual" && asked.method !== "full" ? " --lora-rank 16 --targets all-linear" : "";
  const sharded = asked.nGpus > 1 && asked.method !== "QLoRA";
  const cards = sharded ? ` --gpus ${asked.nGpus} --sharding zero3` : "";
  const card = asked.card ? ` --gpu ${asked.card.id}` : "";
  return `registry fit --model ${asked.model} --method ${asked.method.toLowerCase()} --seq-len ${asked.length} --batch ${asked.batch}${cards}${card}${COMMAND[asked.settings]}${adapters}`;
}

function buildCards(grid, asked, figure) {
  const rows = grid.cards.map((card) => ({
    ...card,
    verdict: grid.judge(figure, card.memory),
    chance: grid.chance(figure, card.memory),
    likely: figure.value / card.memory,
  }));
  const columns = [
    { key: "id_of_card", title: "Card", of: (row) => row.id + (row.verified === false ? " (memory not verified)" : "") },
    { key: "memory", title: "Memory", of: (row) => formatGib(row.memory), number: true },
    { key: "verdict", title: "Verdict", of: (row) => element("span", { class: `mark ${row.verdict.replaceAll(" ", "-")}` }, `${MARKS[row.verdict]} ${row.verdict}`) },
    { key: "chance", title: "Chance that it fits", of: (row) => formatChance(row.chance), number: true },
    { key: "likely", title: "Likely share of the memory", of: (row) => `${formatNumber(Math.round(100 * row.likely))} %`, number: true },
  ];
  for (const row of rows) row.id_of_card = row.id;
  return buildTable(rows, columns, { caption: "Verdict on each card, the smallest first", first: 500 });
}

async function drawBand(grid, asked, runs, chart) {
  const band = grid.lengths.map((length) => {
    const { low, value, high } = grid.find({ ...asked, length });
    return { x: length, low: toGib(low), value: toGib(value), high: toGib(high) };
  });
  const same = runs.filter((row) => row.micro_batch_size === asked.batch);
  const points = buildPoints(same, { x: "seq_len", y: "memory", colour: "memory_kind" });
  const capacity = asked.card ? [{ memory: toGib(asked.card.memory), name: asked.card.id }] : [];
  const asking = [{ x: asked.length }];
  await chart.draw(bandSpec, { band, rows: points, capacity, asking });
}

function describeMethod(grid) {
  const list = (values) => values.map((value) => formatCount(value)).join(", ");
  return element(
    "section",
    {},
    element("h2", {}, "Where the figures come from"),
    element("p", {}, `The predictions were computed when this site was made, with the predictor of registry fit, for ${grid.models.length} models, lengths of ${list(grid.lengths)}, batches of ${list(grid.batches)} and ${list(grid.n_gpus)} cards. `,
      "Nothing is computed or interpolated here. The interval holds what is not stated: checkpointing, attention, optimizer, the loss, the adapters. ",
      "A verdict is undecided if the interval reaches to both sides of what the card can give, or if settings that were left open, with more than 5 % of the weight, need more. ",
      "The command also considers runs on the same card: its figure is no lower than the peak of a leaner run, and its verdict follows a run that proves it. ",
      "Several cards share the weights, gradients and optimizer with ZeRO-3; with QLoRA each holds all of it, so that the figure is that of one card."),
    element("p", {}, "Dots are measured runs with this batch; those with another are in the table. A cross is a run out of memory, at the memory of its card."),
  );
}
