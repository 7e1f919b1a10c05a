const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** `1.5 GiB`: powers of 1024, at most one decimal. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 1023.95 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${Number(value.toFixed(1))} ${UNITS[unit]}`;
}

/** `512`, `10 MiB`, `10MB`, `1.5g`: decimal units are powers of 1000, the others of 1024. Undefined when malformed. */
export function parseBytes(text: string): number | undefined {
  const match = /^\s*(\d+(?:\.\d+)?)\s*(?:([kmgtp])(i?b)?|b)?\s*$/i.exec(text);
  if (!match) return undefined;
  const power = match[2] ? "kmgtp".indexOf(match[2].toLowerCase()) + 1 : 0;
  const radix = match[3]?.toLowerCase() === "b" ? 1000 : 1024;
  const bytes = Math.round(Number(match[1]) * radix ** power);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
