//! Lengths of time.

/** A length of time: milliseconds, or a text such as `"250ms"`, `"30s"`, `"10m"` or `"1h 30m"`. */
export type Span = number | string;

const UNITS: Record<string, number> = { us: 0.001, ms: 1, s: 1_000, m: 60_000, min: 60_000, h: 3_600_000, d: 86_400_000 };

/** As the server reads it. */
export function spanText(span: Span): string {
  if (typeof span === "string") return span;
  return Number.isInteger(span) && span >= 0 ? `${span}ms` : `${Math.round(spanMs(span) * 1_000)}us`;
}

/** In milliseconds. */
export function spanMs(span: Span): number {
  if (typeof span === "number") {
    if (Number.isFinite(span) && span >= 0) return span;
    throw new RangeError(`${span} is not a length of time; give milliseconds, or a text such as "30s"`);
  }
  const parts = span.split(" ").map((part) => /^(\d+(?:\.\d+)?)([a-z]+)$/.exec(part));
  return parts.reduce((sum, part) => {
    const unit = UNITS[part?.[2] ?? ""];
    if (part?.[1] === undefined || unit === undefined) {
      throw new RangeError(`${JSON.stringify(span)} is not a length of time; write it like "250ms", "30s", "5m" or "1h 30m"`);
    }
    return sum + Number(part[1]) * unit;
  }, 0);
}
