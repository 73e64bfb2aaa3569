// The page of one observation: figures, cells as written, reasons, and how to cite it.

import { element, outsideLink } from "./elements.js";
import { readCompressedJson } from "./files.js";
import { formatFigure, formatValue } from "./format.js";
import { choiceOf, formatRoute } from "./route.js";
import { findSource } from "./sources.js";

export const title = "Observation";

const about = () => JSON.parse(document.getElementById("about").textContent);

export async function show(main, { argument, choices }) {
  const wanted = argument.trim().toLowerCase();
  const found = await findObservation(wanted);
  if (!found) {
    main.replaceChildren(element("h1", {}, "No such observation"), element("p", {}, `No observation id of this site begins with ${JSON.stringify(argument)}.`));
    return;
  }
  const [id, document] = found;
  const source = await findSource(document.observation.source_id);
  const inferences = document.observation.inferences ?? {};
  main.replaceChildren(
    element("h1", {}, `Observation ${id.slice(0, 12)}`),
    ...(document.retractions ?? []).map((one) => element("p", { class: "verdict does-not-fit" }, `Withdrawn ${one.retracted_at}: ${one.reason}`)),
    element("p", {}, describe(document)),
    section("Figures", buildFigures(document.measurements ?? [])),
    section("Configuration", buildList(document.configuration, inferences)),
    section("Environment", buildList(document.environment, inferences)),
    section("Outcome", buildList(withoutInferences(document.observation), inferences)),
    section("Where it is reported", ...buildCitations(document.citations ?? [], source)),
    section("How to cite", ...buildCitation(id, source)),
    element("p", {}, sameConfiguration(document, choiceOf(choices, "from", ""))),
  );
}

/** Return the id and the document of the one observation whose id begins like this. */
async function findObservation(wanted) {
  const digits = about().shard_digits;
  if (!/^[0-9a-f]{4,}$/.test(wanted)) return null;
  const shard = wanted.slice(0, digits);
  if (!about().shards.includes(shard)) return null;
  const documents = await readCompressedJson(`data/observations/${shard}.json.zst`);
  const ids = Object.keys(documents).filter((id) => id.startsWith(wanted));
  return ids.length === 1 ? [ids[0], documents[ids[0]]] : null;
}

const section = (heading, ...content) => element("section", {}, element("h2", {}, heading), content);

function describe({ configuration, observation }) {
  const { model_id, method, gpu_id, n_gpus, seq_len, micro_batch_size } = configuration;
  const parts = [
    model_id ?? observation.model_reported,
    method,
    gpu_id ? `${n_gpus ?? "?"} × ${gpu_id}` : null,
    seq_len ? `length ${seq_len}` : null,
    micro_batch_size ? `batch ${micro_batch_size}` : null,
    `outcome: ${observation.outcome}`,
    observation.evidence,
  ];
  return parts.filter(Boolean).join(", ");
}

function withoutInferences({ inferences: _, ...rest }) {
  return rest;
}

function buildList(part, inferences) {
  const entries = Object.entries(part ?? {}).filter(([, value]) => value !== null);
  if (!entries.length) return element("p", {}, "not stated");
  return element(
    "dl",
    {},
    entries.flatMap(([name, value]) => [
      element("dt", {}, name),
      element("dd", {}, formatValue(value), inferences[name] ? element("div", { class: "quiet" }, `inferred: ${inferences[name]}`) : null),
    ]),
  );
}

const FIGURE_COLUMNS = ["Figure", "Value", "Between", "As written", "Of what", "Origin and reason"];

function buildFigures(figures) {
  if (!figures.length) return element("p", {}, "It reports no figure.");
  const units = about().units;
  const rows = figures.map((one) => {
    const unit = units[one.metric];
    const [low, high] = [one.low ?? one.value, one.high ?? one.value];
    const bounds = low === high ? "" : `${formatFigure(low, unit)} and ${formatFigure(high, unit)}`;
    const raw = one.raw === undefined ? "" : JSON.stringify(one.raw);
    const reading = one.reading ? `, read as ${one.reading}` : "";
    const scope = [one.statistic === "value" ? null : one.statistic, one.scope, one.device_index, one.kind];
    return [one.metric, formatFigure(one.value, unit), bounds, raw + reading,
      scope.filter((word) => word !== null && word !== undefined).join(", "),
      [one.origin, one.reason].filter(Boolean).join(": ")];
  });
  return plainTable(FIGURE_COLUMNS, rows, "Figures");
}

function plainTable(headings, rows, caption) {
  const head = element("thead", {}, element("tr", {}, headings.map((one) => element("th", { scope: "col" }, one))));
  const body = element("tbody", {}, rows.map((row) => element("tr", {}, row.map((cell) => element("td", {}, cell)))));
  const scroll = { class: "scroll", tabindex: "0", role: "region", "aria-label": caption };
  return element("div", scroll, element("table", { class: "cells" }, element("caption", {}, caption), head, body));
}

function buildCitations(citations, source) {
  return citations.map((one) => {
    const cells = Object.entries(one.cells ?? {}).map(([column, cell]) => [column, formatValue(cell)]);
    const url = one.source_id === source?.source_id ? source.url : null;
    return element(
      "article",
      {},
      element("h3", {}, `${one.source_id}, ${one.locator}`),
      one.table_title ? element("p", {}, `Table: ${one.table_title}`) : null,
      url ? element("p", {}, outsideLink(url)) : null,
      cells.length ? plainTable(["Column", "Cell as written"], cells, "Cells as the source has them") : null,
    );
  });
}

function buildCitation(id, source) {
  if (!source) return [element("p", {}, `peft-registry, observation ${id}.`)];
  const parts = [source.publisher, source.title, source.published_on].filter(Boolean).join(". ");
  return [
    element("p", {}, `${parts}. `, outsideLink(source.url), source.revision ? ` (revision ${source.revision})` : "", ` As observation ${id} of peft-registry ${about().version}.`),
    element("p", { class: "quiet" }, `Licence of the source: ${source.licence ?? "none stated"}.`),
  ];
}

function sameConfiguration({ configuration: { model_id, gpu_id } }) {
  const choices = new Map();
  if (model_id) choices.set("model_id", [model_id]);
  if (gpu_id) choices.set("gpu_id", [gpu_id]);
  if (!choices.size) return "";
  return element("a", { href: formatRoute("explore", choices) }, `All observations of ${[model_id, gpu_id].filter(Boolean).join(" on ")}`);
}
