/** One range of a representation, in bytes; both ends included. */
export type Range = { first: number; last: number };

const BYTES = /^bytes=[ \t]*(?:(\d+)-(\d*)|-(\d+))[ \t]*$/i;

/**
 * Reads a Range header for content of this size. "whole": no range, several ranges, another unit or bad syntax; all of
 * it may be sent. "none": the range begins behind the end.
 */
export function rangeOf(header: string | null, sizeBytes: number): Range | "whole" | "none" {
  const match = BYTES.exec(header ?? "");
  if (!match) return "whole";
  const [, from, to, suffix] = match;
  if (suffix !== undefined) {
    if (Number(suffix) === 0 || sizeBytes === 0) return "none";
    return { first: Math.max(0, sizeBytes - Number(suffix)), last: sizeBytes - 1 };
  }
  const first = Number(from);
  const last = to === "" ? Number.POSITIVE_INFINITY : Number(to);
  if (last < first) return "whole"; // not a range at all
  if (first >= sizeBytes) return "none";
  return { first, last: Math.min(last, sizeBytes - 1) };
}

/** True if If-None-Match names this tag. Weak and strong tags are equal for a reader. */
export const matchesTag = (header: string | null, tag: string): boolean =>
  (header ?? "").split(",").some((each) => each.trim() === "*" || each.trim().replace(/^W\//, "") === tag);
