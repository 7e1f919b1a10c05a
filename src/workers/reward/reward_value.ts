/** Validates the number that reward code returned for one completion. */
import { Fault, type Outcome } from "../../lib/rewards/contract.ts";

/**
 * The harness runs in the same interpreter as the code that it calls, so its answer is untrusted. The answer counts only as
 * a finite number, or as a fault of a known shape; anything else throws. `ms` is the time that the call took.
 */
export function readOutcome(answer: unknown, ms: number): Outcome {
  const { value, fault } = (answer ?? {}) as { value?: unknown; fault?: unknown };
  if (typeof value === "number" && Number.isFinite(value)) return { value, fault: null, ms };
  return { value: null, fault: Fault.parse(fault), ms };
}
