// Figures as text, in the units that people read: GiB for memory.

const GIB = 2 ** 30;

export const toGib = (bytes) => (bytes === null || bytes === undefined ? null : bytes / GIB);

/** Return a number with three significant digits and no exponent. */
export function formatNumber(value) {
  if (value === null || value === undefined) return "";
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value) || 1)));
  return value.toLocaleString("en-US", { maximumFractionDigits: Math.min(digits, 6) });
}

export const formatGib = (bytes) => {
  if (bytes === null || bytes === undefined) return "";
  return `${formatNumber(toGib(bytes))} GiB`;
};

export const formatCount = (count) => count.toLocaleString("en-US");

export function formatDuration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 120) return `${formatNumber(seconds)} s`;
  return seconds < 7200
    ? `${formatNumber(seconds / 60)} min`
    : `${formatNumber(seconds / 3600)} h`;
}

/** Return a figure of an observation in its unit, bytes in GiB as well. */
export function formatFigure(value, unit) {
  if (unit === "byte") return `${formatCount(value)} bytes (${formatGib(value)})`;
  if (unit === "second") return `${formatNumber(value)} s`;
  return unit === "1" || !unit ? formatNumber(value) : `${formatNumber(value)} ${unit}`;
}

/** Return any value of a document as text. */
export function formatValue(value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.map(formatValue).join(", ");
  if (typeof value === "object") {
    return Object.entries(value).map(([name, one]) => `${name}: ${formatValue(one)}`).join(", ");
  }
  return String(value);
}
