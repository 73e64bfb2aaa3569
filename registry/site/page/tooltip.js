// The small box beside the pointer: lines of text.

import { element } from "./elements.js";

const box = () => document.getElementById("tooltip");

/** Show [name, value] pairs beside the pointer, inside of the window. */
export function showTooltip(event, lines) {
  const shown = lines.filter(([, value]) => value !== null && value !== undefined && value !== "");
  box().replaceChildren(
    element("dl", {}, shown.flatMap(([name, value]) => [
      element("dt", {}, name),
      element("dd", {}, String(value)),
    ])),
  );
  box().hidden = false;
  const { offsetWidth: width, offsetHeight: height } = box();
  const left = Math.min(event.clientX + 14, innerWidth - width - 8);
  const top = Math.min(event.clientY + 14, innerHeight - height - 8);
  box().style.setProperty("left", `${Math.max(left, 8)}px`);
  box().style.setProperty("top", `${Math.max(top, 8)}px`);
}

export function hideTooltip() {
  box().hidden = true;
}
