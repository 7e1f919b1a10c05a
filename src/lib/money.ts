/** Money is integer micro-dollars inside and a number of dollars outside. */
const MICROS = 1_000_000;
export const microsOf = (usd: number) => Math.round(usd * MICROS);
export const usdOf = (micros: number) => micros / MICROS;
