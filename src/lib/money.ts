/** Money is integer micro-dollars inside and a number of dollars outside. */
const MICROS = 1_000_000;
/** The smallest amount there is, in dollars. */
export const MICRO_USD = 1 / MICROS;
export const microsOf = (usd: number) => Math.round(usd * MICROS);
export const usdOf = (micros: number) => micros / MICROS;

const DOLLARS = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD" });

/** 12.5 → "$12.50", 1234.5 → "$1,234.50", 0.0002 → "$0.0002" */
export function formatUsd(usd: number): string {
  const size = Math.abs(usd);
  if (size < MICRO_USD || size >= 0.01) return DOLLARS.format(usd);
  return `${usd < 0 ? "-" : ""}$${size.toPrecision(2)}`;
}
