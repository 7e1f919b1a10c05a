/** Pure: decides from the answers to a health check whether a worker is alive. */
import type { ServingHealth } from "../../../../workers/protocol.ts";

/** One answer of the worker: its report, the error that it reported, or silence. */
export type HealthAnswer = { report: ServingHealth } | { error: string } | "silent";

export type Sign = {
  answer: HealthAnswer;
  /** Time without progress in this check. */
  quietMs: number;
  /** `serving.health_timeout_ms` */
  timeoutMs: number;
};

/** `unknown`: ask again. */
export type Liveness = "alive" | "dead" | "unknown";

const TIMES_EXPECTED = 10; // other processes may take most of the machine
const LEAST_TIMEOUTS = 2; // an estimate may be far off, for example right after the load

/** A decode call under way counts as progress for this long. */
export const allowedMs = (expectedMs: number, timeoutMs: number): number =>
  Math.max(TIMES_EXPECTED * expectedMs, LEAST_TIMEOUTS * timeoutMs);

/**
 * A worker is alive if a decode call has succeeded, or if one is under way and within its allowed time. It is dead if it
 * reports a failure, or after `timeoutMs` without progress.
 */
export function judgeLiveness({ answer, quietMs, timeoutMs }: Sign): Liveness {
  if (answer !== "silent") {
    if ("error" in answer) return "dead";
    const { decoded, running } = answer.report;
    if (decoded || (running && running.age_ms < allowedMs(running.expected_ms, timeoutMs))) return "alive";
  }
  return quietMs >= timeoutMs ? "dead" : "unknown";
}
