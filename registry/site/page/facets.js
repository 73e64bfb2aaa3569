// Filters: for each property a list of its values to tick, with how many observations each has.

import { element } from "./elements.js";
import { FACETS, valueOf } from "./fields.js";
import { formatCount } from "./format.js";

/** Return whether a row has a ticked value of each property that has any. */
export function matches(row, choices, except = null) {
  return FACETS.every(([name]) => {
    const wanted = choices.get(name);
    return name === except || !wanted?.length || wanted.includes(valueOf(row, name));
  });
}

export const filterRows = (rows, choices) => rows.filter((row) => matches(row, choices));

/** The panel of filters over rows; `onChange` is called with the new choices. */
export class Facets {
  constructor(rows, choices, onChange) {
    this.rows = rows;
    this.choices = choices;
    this.onChange = onChange;
    this.parts = FACETS.map(([name, title]) => new Facet(name, title, this));
    const clear = element("button", { type: "button", onclick: () => this.clear() }, "Clear filters");
    const narrow = matchMedia("(max-width: 60rem)").matches;
    this.panel = element(
      "details",
      { class: "filters", open: !narrow },
      element("summary", {}, "Filters"),
      this.parts.map((part) => part.box),
      clear,
    );
    this.refresh();
  }

  refresh() {
    for (const part of this.parts) part.refresh();
  }

  choose(name, values) {
    if (values.length) this.choices.set(name, values);
    else this.choices.delete(name);
    this.refresh();
    this.onChange();
  }

  clear() {
    for (const [name] of FACETS) this.choices.delete(name);
    this.refresh();
    this.onChange();
  }
}

class Facet {
  constructor(name, title, owner) {
    Object.assign(this, { name, title, owner });
    this.stated = element("span", { class: "quiet" });
    this.search = element("input", {
      type: "search", "aria-label": `Search in ${title}`, placeholder: "Search", oninput: () => this.listValues(),
    });
    this.list = element("div", { class: "values" });
    this.box = element(
      "details",
      { class: "facet", ontoggle: () => this.refresh() },
      element("summary", {}, title, " ", this.stated),
      this.search,
      this.list,
    );
  }

  get wanted() {
    return this.owner.choices.get(this.name) ?? [];
  }

  refresh() {
    this.stated.textContent = this.wanted.length ? this.wanted.join(", ") : "any";
    if (this.box.open) this.listValues();
  }

  count() {
    const counts = new Map();
    for (const row of this.owner.rows) {
      if (!matches(row, this.owner.choices, this.name)) continue;
      const value = valueOf(row, this.name);
      counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    for (const value of this.wanted) counts.set(value, counts.get(value) ?? 0);
    return [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
  }

  listValues() {
    const words = this.search.value.trim().toLowerCase();
    const found = this.count().filter(([value]) => value.toLowerCase().includes(words));
    this.search.hidden = found.length < 8 && !words;
    const focused = document.activeElement?.value;
    const hadFocus = this.list.contains(document.activeElement);
    this.list.replaceChildren(...found.slice(0, 60).map(([value, n]) => this.buildValue(value, n)));
    if (found.length > 60) this.list.append(element("p", { class: "quiet" }, `and ${found.length - 60} more: search`));
    if (hadFocus) [...this.list.querySelectorAll("input")].find((box) => box.value === focused)?.focus();
  }

  buildValue(value, n) {
    const box = element("input", { type: "checkbox", value, checked: this.wanted.includes(value) });
    box.addEventListener("change", () => {
      const others = this.wanted.filter((one) => one !== value);
      this.owner.choose(this.name, box.checked ? [...others, value] : others);
    });
    return element("label", {}, box, element("span", {}, value), element("span", { class: "quiet" }, formatCount(n)));
  }
}
