/**
 * Faults of native decode calls, for tests of the real worker (test/serving/faults.ts). The server never asks for one.
 * `slow:N` delays every call by N ms. `hang:N` makes a call with at least N tokens never return.
 */
let fault = { kind: "", amount: 0 };

export function armFault(spec: string) {
  const [kind = "", amount] = spec.split(":");
  fault = { kind, amount: Number(amount) };
}

/** Called before each decode call, on the decoding thread. */
export function injectFault(tokens: number) {
  if (fault.kind === "slow") Bun.sleepSync(fault.amount);
  if (fault.kind === "hang" && tokens >= fault.amount) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}
