/** Percent of the balance after the last grant. Each time the balance falls below one, the workspace gets an event. */
const LOW = [20, 5];

export type Alert = { type: "credit.low"; percent: number } | { type: "credit.exhausted" };

/** The events that a change from `before` to `after` causes. `full`: the balance after the last grant. */
export function alertsOf(full: number, before: number, after: number): Alert[] {
  const low = LOW.filter((percent) => {
    const line = (full * percent) / 100;
    return after > 0 && before > line && after <= line;
  });
  const last = low.at(-1); // below both, only the lower one counts
  return [
    ...(last === undefined ? [] : [{ type: "credit.low", percent: last } as const]),
    ...(before > 0 && after <= 0 ? [{ type: "credit.exhausted" } as const] : []),
  ];
}
