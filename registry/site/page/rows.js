// The observations, read once from the site's Parquet file.

import { readBytes } from "./files.js";

let loaded = null;

/** Return all observations, in the order of the file. */
export function readRows() {
  loaded ??= load();
  return loaded;
}

async function load() {
  const bytes = await readBytes("data/results.parquet");
  const rows = await libraries.parquetReadObjects({
    file: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength),
    compressors: { ZSTD: (input, length) => libraries.decompress(input, new Uint8Array(length)) },
  });
  rows.forEach(complete);
  return rows;
}

/** Numbers instead of BigInt, null instead of undefined, and what follows from the rest. */
function complete(row) {
  for (const name in row) {
    if (typeof row[name] === "bigint") row[name] = Number(row[name]);
    else if (row[name] === undefined) row[name] = null;
  }
  const { tokens_per_second: tokens, n_gpus: cards } = row;
  row.tokens_per_card = tokens !== null && cards ? tokens / cards : null;
  row.tokens = row.seq_len !== null ? row.seq_len * (row.micro_batch_size ?? 1) : null;
}
