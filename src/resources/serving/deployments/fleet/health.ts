/** Health checks of processes that hold a model. liveness.ts judges the answers. */
import type { Ctx } from "../../../../context.ts";
import { outside, readOutside, SERVING_BYTES } from "../../../../lib/json/outside.ts";
import { readUpTo } from "../../../../platform/network/answer_body.ts";
import { ServingHealth } from "../../../../workers/protocol.ts";
import { messageOf } from "../chat/error_message.ts";
import { type Host, isReachable, type Replica } from "./fleet.ts";
import * as hosts from "./hosts.ts";
import { type HealthAnswer, judgeLiveness } from "./liveness.ts";
import { replicaLost } from "./replica.ts";

const STEPS = 4; // the longest wait for progress in one question, as a part of the health timeout

const HEALTH = outside("the health of a replica", ServingHealth);

/** Checks a replica that has shown no progress for `health_interval_ms`. */
export async function prove(ctx: Ctx, replica: Replica) {
  const { health_interval_ms: everyMs, health_timeout_ms: timeoutMs } = ctx.config.serving;
  const { host } = replica;
  const isProved = (each: Replica) => each.probing || ctx.clock.steady() - each.provedAt < everyMs;
  if (replica.state !== "ready" || !isReachable(replica) || [...host.users.keys()].some(isProved)) return;
  replica.probing = true;
  const error = await check(ctx, host, timeoutMs);
  replica.probing = false;
  if (error === undefined) replica.provedAt = ctx.clock.steady();
  else if (hosts.isOpen(ctx, host)) processLost(ctx, host, `The health check failed: ${error}`);
}

/**
 * Asks until the worker is judged, and returns the reason if it is dead. The questions are counted, not the clock: if the
 * server itself stood still, the answer to the next question comes first.
 */
async function check(ctx: Ctx, host: Host, timeoutMs: number): Promise<string | undefined> {
  const stepMs = timeoutMs / STEPS;
  for (let quietMs = 0; hosts.isOpen(ctx, host) && (host.remote?.isReachable ?? true); ) {
    const answer = await ask(ctx, host, stepMs);
    quietMs += answer === "silent" ? 2 * stepMs : stepMs;
    const verdict = judgeLiveness({ answer, quietMs, timeoutMs });
    if (verdict === "alive") return undefined;
    if (verdict === "dead") return reasonOf(answer, timeoutMs);
  }
  return undefined;
}

/** The worker answers at once when it decodes, otherwise after `stepMs`. It is silent after twice that time. */
async function ask(ctx: Ctx, host: Host, stepMs: number): Promise<HealthAnswer> {
  const timeout = AbortSignal.timeout(2 * stepMs);
  try {
    const answer = await fetch(`http://worker/health?wait_ms=${stepMs}`, {
      unix: host.worker.socketPath,
      signal: timeout,
    });
    const sent = await readUpTo(answer, SERVING_BYTES, timeout);
    if (answer.ok) return { report: readOutside(HEALTH, sent) };
    return { error: messageOf(new TextDecoder().decode(sent.body)) };
  } catch {
    if (!timeout.aborted) await ctx.clock.sleep(2 * stepMs); // no connection: its exit is reported meanwhile
    return "silent";
  }
}

function reasonOf(answer: HealthAnswer, timeoutMs: number): string {
  if (answer === "silent") return `the worker did not answer for ${timeoutMs} ms`;
  return "error" in answer ? answer.error : `no decode call has returned for ${timeoutMs} ms`;
}

/** All replicas in the process are lost. It is killed at once, so that requests without an answer can be sent again. */
function processLost(ctx: Ctx, host: Host, error: string) {
  const lost = [...host.users].filter(([{ state }]) => state !== "leaving");
  host.ending = true;
  for (const replica of host.users.keys()) replica.state = "leaving";
  void host.worker.stop("failed its health check");
  kill(host, error);
  for (const [{ model }, live] of lost) replicaLost(ctx, live, { error, canRetry: true, model });
}

/** Kills a process whose load hangs. Its exit then counts as a loss. */
export function killHung(ctx: Ctx, replica: Replica) {
  if (replica.state === "starting" && ctx.clock.steady() > replica.loadUntil)
    kill(replica.host, "its load takes too long");
}

function kill({ worker, remote }: Host, why: string) {
  if (remote) return remote.abandon(why);
  try {
    process.kill(worker.pid, "SIGKILL");
  } catch {
    // it has ended already
  }
}
