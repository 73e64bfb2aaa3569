// The page Leaderboards: the fastest and the leanest measured runs of a model on a card.

import { element, labelledSelect } from "./elements.js";
import { COLUMNS, UNSTATED, isBelieved, valueOf } from "./fields.js";
import { formatCount, formatNumber } from "./format.js";
import { choiceOf, keepChoices } from "./route.js";
import { readRows } from "./rows.js";
import { buildTable, sortRows } from "./table.js";

export const title = "Leaderboards";

/** What decides, and whether more is better. */
const BOARDS = {
  speed: { title: "Fastest (tokens per second per card)", key: "tokens_per_card", descending: true },
  memory: { title: "Leanest (peak memory per card)", key: "peak_memory_bytes_per_gpu", descending: false },
};

/** What has to be the same for two runs to be compared: the best of each is listed. */
const SAME = ["model_id", "method_label", "gpu_id", "n_gpus", "seq_len", "micro_batch_size", "memory_kind"];

export async function show(main, { choices }) {
  const rows = (await readRows()).filter((row) => row.outcome === "ok" && row.evidence === "measured" && isBelieved(row));
  const place = element("div");
  const controls = element("div", { class: "controls" });
  const update = () => refresh(rows, choices, controls, place);
  main.replaceChildren(
    element("h1", {}, title),
    element("p", { class: "quiet" }, "Measured runs that ended well, the best of each configuration. Lengths, batches, cards and kinds of memory differ from row to row: choose what you compare. Runs with a figure that is hard to believe (flag suspect) are left out."),
    controls,
    place,
  );
  update();
}

const CHOICES = [
  ["model_id", "Model"],
  ["gpu_id", "Card"],
  ["method_label", "Method"],
  ["seq_len", "Length"],
  ["objective", "Objective"],
];

/** What is chosen at first. */
const USUAL = { objective: "sft" };
const ANY = "any";

/** Return the value that is chosen of a property; "any" for all. */
const wantedOf = (choices, name) => choiceOf(choices, name, USUAL[name] ?? ANY);

function refresh(rows, choices, controls, place) {
  const board = BOARDS[choiceOf(choices, "board", "speed")] ?? BOARDS.speed;
  const ranked = rows.filter((row) => row[board.key] !== null);
  const update = () => refresh(rows, choices, controls, place);
  const focused = document.activeElement?.id;
  controls.replaceChildren(...buildControls(ranked, choices, update));
  if (focused) document.getElementById(focused)?.focus();
  const found = sortRows(ranked.filter((row) => isChosen(row, choices)), board.key, board.descending);
  const best = keepBest(found);
  keepChoices("leaderboards", choices);
  place.replaceChildren(
    element("p", { class: "said", role: "status" }, `${formatCount(best.length)} configurations of ${formatCount(found.length)} runs.`),
    buildTable(best, columnsOf(board), { caption: board.title }),
  );
}

function isChosen(row, choices, except = null) {
  return CHOICES.every(([name]) => {
    const wanted = wantedOf(choices, name);
    return name === except || wanted === ANY || String(valueOf(row, name)) === wanted;
  });
}

/** Return the first row of each configuration, with its place. */
function keepBest(rows) {
  const seen = new Map();
  for (const row of rows) {
    const key = JSON.stringify(SAME.map((name) => row[name]));
    if (!seen.has(key)) seen.set(key, { ...row, place: seen.size + 1 });
  }
  return [...seen.values()];
}

function columnsOf(board) {
  const place = { key: "place", title: "Place", of: (row) => String(row.place), number: true };
  const each = { key: "tokens_per_card", title: "Tokens/s per card", of: (row) => formatNumber(row.tokens_per_card), number: true };
  const others = COLUMNS.filter((column) => !["outcome", "tokens_per_second", "observation_id"].includes(column.key));
  const [observation] = COLUMNS;
  const first = board.key === "tokens_per_card" ? [each] : [];
  return [place, ...first, ...others, observation];
}

function buildControls(rows, choices, update) {
  const choose = (name, usual) => (value) => {
    if (value === usual) choices.delete(name);
    else choices.set(name, [value]);
    update();
  };
  const boards = Object.entries(BOARDS).map(([name, board]) => [name, board.title]);
  const ranking = labelledSelect("Ranked by", "board", boards, choiceOf(choices, "board", "speed"), choose("board", "speed"));
  return [ranking, ...CHOICES.map(([name, label]) => {
    const options = countValues(rows.filter((row) => isChosen(row, choices, name)), name);
    return labelledSelect(label, name, [[ANY, ANY], ...options], wantedOf(choices, name), choose(name, USUAL[name] ?? ANY));
  })];
}

function countValues(rows, name) {
  const counts = new Map();
  for (const row of rows) {
    const value = String(valueOf(row, name));
    counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  const compare = (a, b) => (a[0] === UNSTATED) - (b[0] === UNSTATED) || a[0].localeCompare(b[0], "en", { numeric: true });
  return [...counts].sort(compare).map(([value, n]) => [value, `${value} (${formatCount(n)})`]);
}
