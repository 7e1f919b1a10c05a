/** Percent of the balance after the last grant at which a workspace is told, once for each time it falls below. */
const LOW = [20, 5];

export type Alert = { type: "credit.low"; percent: number } | { type: "credit.exhausted" };

/** What a change from `before` to `after` is worth saying. `full`: the balance after the last grant. */
export function alertsOf(full: number, before: number, after: number): Alert[] {
  const low = LOW.filter((percent) => {
    const line = (full * percent) / 100;
    return after > 0 && before > line && after <= line;
  });
  const last = low.at(-1); // one that falls below both hears of the lower
  return [
    ...(last === undefined ? [] : [{ type: "credit.low", percent: last } as const]),
    ...(before > 0 && after <= 0 ? [{ type: "credit.exhausted" } as const] : []),
  ];
}
