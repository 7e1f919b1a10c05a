/** Sessions need the permission of the operator and a host that can isolate processes. */
import type { Ctx } from "../../../context.ts";
import { AppError, UsageError } from "../../../lib/errors.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import { StorageError } from "../../../platform/files.ts";
import { sessionJail } from "../../../sandbox/jail/session_jail.ts";
import { jailSupport } from "../../../sandbox/jail/support.ts";
import type { JailSupport } from "../../../sandbox/jail/types.ts";

export function requireEnabled(ctx: Pick<Ctx, "config">) {
  if (!ctx.config.sessions.enabled)
    throw disabled("sessions.enabled is false. Set sessions.enabled = true to allow them");
}

/** Throws if the host cannot isolate processes. Success is remembered; a failure is checked again after a minute. */
export async function requireSupport(ctx: Ctx) {
  requireEnabled(ctx);
  const state = ctx.state.sessions;
  const now = ctx.clock.now();
  if (!state.support || now - state.support.at >= MINUTE_MS) state.support = { at: now, answer: probe(ctx) };
  const { support } = state;
  const answer = await support.answer.catch((error) => {
    if (state.support === support) state.support = undefined; // A full disk may have space again at once.
    throw error;
  });
  if (!answer.ok) throw disabled(`${answer.reason}. ${answer.fix}`);
  support.at = Number.POSITIVE_INFINITY;
}

async function probe(ctx: Ctx): Promise<JailSupport> {
  try {
    return await jailSupport(sessionJail(ctx.config.data_dir));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const fault = new StorageError(ctx.config.data_dir, "write", error.cause);
    // The helper cannot be extracted now. That is no reason to call sessions disabled.
    if (fault.reason === "full" || fault.reason === "read_only") throw fault;
    return { ok: false, reason: "the executable verk-jail is missing", fix: error.message };
  }
}

const disabled = (why: string) => new AppError("sessions_disabled", `Sessions are disabled on this server: ${why}`);
