/** Money is integer micro-dollars inside and a number of dollars outside. */
const MICROS = 1_000_000;
/** The smallest amount there is, in dollars. */
export const MICRO_USD = 1 / MICROS;
export const microsOf = (usd: number) => Math.round(usd * MICROS);
export const usdOf = (micros: number) => micros / MICROS;
