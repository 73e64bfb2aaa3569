// The predictions that were computed beforehand: a grid of questions with the interval of each.

import { readJson } from "./files.js";

const MIB = 2 ** 20;

let loaded = null;

export function readGrid() {
  loaded ??= readJson("data/fit.json").then((grid) => new Grid(grid));
  return loaded;
}

class Grid {
  constructor(document) {
    Object.assign(this, document);
    this.ids = this.models.map((model) => model.id);
    this.axes = [this.ids, this.settings, this.methods, this.n_gpus, this.lengths, this.batches];
  }

  /** Return the peak of one card in bytes: low, likeliest, high, and from what on it fits; null for what is not on the grid. */
  find({ model, settings, method, nGpus, length, batch }) {
    const wanted = [model, settings, method, nGpus, length, batch];
    let place = 0;
    for (const [i, axis] of this.axes.entries()) {
      const at = axis.indexOf(wanted[i]);
      if (at < 0) return null;
      place = place * axis.length + at;
    }
    const [low, value, high, enough] = this.values.slice(4 * place, 4 * place + 4).map((mib) => mib * MIB);
    return { low, value, high, enough };
  }

  /** Return how likely a card with so much memory is enough, in whole percents. */
  chance(figure, memory) {
    const usable = this.usable * memory;
    const end = usable < figure.value ? figure.low : figure.enough;
    const reach = Math.log(usable / figure.value) / Math.abs(Math.log(end / figure.value));
    return this.reaches.filter((one) => one <= reach).length;
  }

  /** Return the verdict on a card with so much memory. */
  judge(figure, memory) {
    if (figure.enough <= this.usable * memory) return "fits";
    return figure.low > this.usable * memory ? "does not fit" : "undecided";
  }
}
