// The chart of a prediction over length: the interval as a band, and measured runs as dots.

import { paletteOf } from "./chart.js";
import { OOM } from "./scatter.js";

export function bandSpec(width) {
  const [first, second, third] = paletteOf();
  const x = { field: "x", type: "quantitative", title: "sequence length (tokens)", scale: { type: "log", base: 2, nice: false }, axis: { format: ",d" } };
  const y = (field) => ({ field, type: "quantitative", title: "peak memory per card (GiB)", scale: { type: "log", base: 2, nice: false }, axis: { format: ",~r", labelOverlap: "greedy" } });
  const hidden = { type: "quantitative" };
  return {
    width,
    height: 320,
    autosize: { type: "fit", contains: "padding" },
    layer: [
      { data: { name: "band" }, mark: { type: "area", opacity: 0.18, color: first }, encoding: { x, y: y("low"), y2: { field: "high" } } },
      { data: { name: "band" }, mark: { type: "line", color: first, point: { color: first, size: 20 } }, encoding: { x, y: y("value") } },
      { data: { name: "asking" }, mark: { type: "rule", strokeDash: [2, 4], color: first }, encoding: { x: { ...hidden, field: "x" } } },
      { data: { name: "capacity" }, mark: { type: "rule", color: second, strokeWidth: 2 }, encoding: { y: { ...hidden, field: "memory" } } },
      { data: { name: "capacity" }, mark: { type: "text", color: second, align: "right", dx: -4, dy: -7 }, encoding: { x: { value: "width" }, y: { ...hidden, field: "memory" }, text: { field: "name" } } },
      {
        data: { name: "rows" },
        mark: { type: "point", size: 60, strokeWidth: 1.8, color: third, cursor: "pointer" },
        encoding: {
          x, y: y("y"),
          fill: { condition: { test: "datum.state == 'measured'", value: third }, value: "transparent" },
          shape: { condition: { test: `datum.state == '${OOM}'`, value: "M-1,-1L1,1M-1,1L1,-1" }, value: "circle" },
        },
      },
    ],
  };
}
