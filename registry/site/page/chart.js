// Charts: Vega-Lite drawn on a canvas, with an interpreter instead of generated code, so that the
// page's policy can forbid eval. Data is bound under the name "rows" and can be changed in place.

import { element } from "./elements.js";
import { showTooltip, hideTooltip } from "./tooltip.js";

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Colours that colour-blind readers tell apart; the last is for all others. */
const PALETTE = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--c8", "--c9"];

export const paletteOf = () => PALETTE.map(style);

function themeConfig() {
  const [ink, quiet, line] = ["--ink", "--quiet", "--line"].map(style);
  const axis = {
    labelColor: quiet, titleColor: ink, gridColor: line, domainColor: line, tickColor: line,
    titleFontWeight: "normal", labelFontSize: 12, titleFontSize: 12, labelOverlap: true,
  };
  return {
    background: "transparent",
    font: "system-ui, sans-serif",
    view: { stroke: line },
    axis,
    legend: { labelColor: ink, titleColor: quiet, titleFontWeight: "normal", labelFontSize: 12, titleFontSize: 12, labelLimit: 220, layout: { bottom: { direction: "vertical", margin: 6 } } },
    title: { color: ink, fontWeight: "normal" },
    range: { category: paletteOf() },
  };
}

export const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;

/** A chart in a place of the page that is drawn anew when its form, width or theme changes. */
export class Chart {
  constructor(label, { tooltip, onPick } = {}) {
    this.tooltip = tooltip;
    this.onPick = onPick;
    this.place = element("div", { class: "chart", role: "img", "aria-label": label });
    this.view = null;
    this.size = new ResizeObserver(() => this.fit());
    this.size.observe(this.place);
  }

  /** Draw the specification that `make` gives for a width; where only rows change, only they do. */
  async draw(make, data) {
    Object.assign(this, { make, data });
    const spec = make(this.width());
    const form = JSON.stringify(spec) + isDark();
    if (this.form === form && this.view) await this.change(data);
    else await this.build(spec, data);
    this.form = form;
    this.drawnWidth = this.width();
    this.place.dataset.drawn = String((data.rows ?? []).length);
  }

  async change(data) {
    for (const [name, rows] of Object.entries(data)) this.view.data(name, rows);
    await this.view.runAsync();
  }

  async build(spec, data) {
    this.view?.finalize();
    this.place.replaceChildren();
    // a canvas has no elements to describe: the label of the place and the table do
    const config = { ...(spec.config ? {} : themeConfig()), aria: false };
    const compiled = vegaLite.compile(spec, { config, logger: vega.logger(vega.Error) }).spec;
    this.view = new vega.View(vega.parse(compiled, null, { ast: true }), {
      expr: libraries.expressionInterpreter,
      renderer: "canvas",
      container: this.place,
      loader: { load: refuse, sanitize: refuse, http: refuse, file: refuse },
      logLevel: vega.Error,
    });
    this.view.tooltip((_, event, item) => this.hover(event, item));
    this.view.addEventListener("click", (_, item) => item?.datum && this.onPick?.(item.datum));
    await this.change(data);
  }

  hover(event, item) {
    const lines = item?.datum && this.tooltip ? this.tooltip(item.datum) : null;
    if (lines) showTooltip(event, lines);
    else hideTooltip();
  }

  width() {
    return Math.max(this.place.clientWidth || 600, 240);
  }

  async fit() {
    if (!this.view || !this.place.isConnected || Math.abs(this.drawnWidth - this.width()) < 2) return;
    await this.draw(this.make, this.data);
  }
}

const refuse = () => Promise.reject(new Error("charts load nothing"));
