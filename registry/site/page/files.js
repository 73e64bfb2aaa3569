// Files of the site: fetched from beside the page, or embedded in it where it is a single file.

const known = new Map();

/** Return the content of a file of the site as bytes; each is read once. */
export function readBytes(path) {
  if (!known.has(path)) known.set(path, load(path));
  return known.get(path);
}

async function load(path) {
  const embedded = document.getElementById(`file:${path}`);
  if (embedded) return decodeBase64(embedded.textContent);
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: the server answered ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

function decodeBase64(text) {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export async function readJson(path) {
  return JSON.parse(new TextDecoder().decode(await readBytes(path)));
}

/** Return the content of a JSON file that is compressed with Zstandard. */
export async function readCompressedJson(path) {
  const bytes = libraries.decompress(await readBytes(path));
  return JSON.parse(new TextDecoder().decode(bytes));
}
