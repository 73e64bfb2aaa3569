// Rows as files: CSV and Parquet, made in the page.

import { element } from "./elements.js";

/** Return rows as CSV: null is an empty cell, text is quoted where it has to be. */
export function formatCsv(rows) {
  const names = Object.keys(rows[0] ?? { observation_id: null });
  const lines = rows.map((row) => names.map((name) => formatCell(row[name])).join(","));
  return [names.join(","), ...lines, ""].join("\r\n");
}

function formatCell(value) {
  if (value === null || value === undefined) return "";
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Return rows as a Parquet file. */
export function formatParquet(rows) {
  const names = Object.keys(rows[0] ?? { observation_id: null });
  const columnData = names.map((name) => {
    const data = rows.map((row) => row[name] ?? null);
    return { name, data, type: typeOf(data), nullable: true };
  });
  return libraries.parquetWriteBuffer({ columnData });
}

function typeOf(values) {
  const first = values.find((value) => value !== null);
  if (typeof first === "boolean") return "BOOLEAN";
  return typeof first === "number" ? "DOUBLE" : "STRING";
}

/** Have the browser save a file. */
export function saveFile(name, content, type) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Return the buttons that save the rows that `current` gives. */
export function downloadButtons(current) {
  const csv = () => saveFile("observations.csv", formatCsv(current()), "text/csv");
  const parquet = () =>
    saveFile("observations.parquet", formatParquet(current()), "application/vnd.apache.parquet");
  return element(
    "p",
    { class: "actions" },
    element("button", { type: "button", onclick: csv }, "Download CSV"),
    element("button", { type: "button", onclick: parquet }, "Download Parquet"),
  );
}
