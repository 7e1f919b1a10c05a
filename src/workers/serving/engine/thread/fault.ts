/**
 * Faults of native decode calls, for tests of the real worker. `VERK_DECODE_FAULT=slow:N` delays every call by N ms.
 * `hang:N` makes the first call with at least N tokens never return. The server passes no such variable to its workers,
 * so only a test that starts the worker itself can set one.
 */
const [kind = "", count = ""] = (process.env["VERK_DECODE_FAULT"] ?? "").split(":");
const amount = Number(count);

/** Called before each decode call, on the decoding thread. */
export function injectFault(tokens: number) {
  if (kind === "slow") Bun.sleepSync(amount);
  if (kind === "hang" && tokens >= amount) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}
