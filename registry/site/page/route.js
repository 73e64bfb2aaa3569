// Where the reader is: the page and its choices, kept in the address so that a view can be shared.

/** Return the page, its argument and its choices (name to list of values) of an address. */
export function parseRoute(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page, ...rest] = path.split("/").map(decodeText);
  const choices = new Map();
  for (const [name, value] of new URLSearchParams(query)) {
    choices.set(name, [...(choices.get(name) ?? []), value]);
  }
  return { page: page || "fit", argument: rest.join("/"), choices };
}

function decodeText(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Return the address of a page with choices; what is empty is left out. */
export function formatRoute(page, choices = new Map(), argument = "") {
  const query = new URLSearchParams();
  for (const [name, values] of choices) for (const value of values) query.append(name, value);
  const text = query.toString();
  const path = argument ? `${page}/${encodeURIComponent(argument)}` : page;
  return `#/${path}${text ? `?${text}` : ""}`;
}

/** Show choices in the address without a new entry in the browser's history. */
export function keepChoices(page, choices) {
  history.replaceState(null, "", formatRoute(page, choices));
}

/** Return the one value of a choice, or what is taken without it. */
export const choiceOf = (choices, name, otherwise) => choices.get(name)?.[0] ?? otherwise;
