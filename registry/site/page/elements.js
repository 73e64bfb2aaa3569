// Elements of the page. Text is only ever set as text: nothing that comes from data is parsed.

/** Return an element with attributes and children; strings become text, null is left out. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) setAttribute(made, name, value);
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

function setAttribute(made, name, value) {
  if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
  else if (value === true) made.setAttribute(name, "");
  else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
}

/** Return a link to an address that data names: to a web page only, else its text. */
export function outsideLink(address, text = address) {
  if (!/^https?:\/\//i.test(address ?? "")) return document.createTextNode(text ?? "");
  return element("a", { href: address, rel: "noopener noreferrer external" }, text);
}

/** Return a select with a label. Options are [value, text] pairs. */
export function labelledSelect(label, name, options, chosen, onChange) {
  const select = element("select", { name, id: `select-${name}` });
  for (const [value, text] of options) {
    select.append(element("option", { value, selected: String(value) === String(chosen) }, text));
  }
  select.addEventListener("change", () => onChange(select.value));
  return element("label", { class: "field" }, element("span", {}, label), select);
}
