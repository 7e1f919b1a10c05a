/** Sessions need the permission of the operator and a host that can isolate processes. */
import type { Ctx } from "../../context.ts";
import { AppError, UsageError } from "../../lib/errors.ts";
import { oncePer } from "../../lib/once_per.ts";
import type { Db } from "../../platform/db/db.ts";
import { sessionJail } from "../../sandbox/jail/session_jail.ts";
import { jailSupport } from "../../sandbox/jail/support.ts";
import type { JailSupport } from "../../sandbox/jail/types.ts";

const PROBE_AGAIN_MS = 60_000;
type Asked = { at: number; answer: Promise<JailSupport> } | undefined;
const askedOf = oncePer((_db: Db) => ({ asked: undefined as Asked }));

export function requireEnabled(ctx: Pick<Ctx, "config">) {
  if (!ctx.config.sessions.enabled)
    throw disabled("sessions.enabled is false. Set sessions.enabled = true to allow them");
}

/** For what needs the sandbox. A host that can, can for good; one that cannot is asked again each minute. */
export async function requireSupport(ctx: Ctx) {
  requireEnabled(ctx);
  const state = askedOf(ctx.db);
  const now = ctx.clock.now();
  if (!state.asked || now - state.asked.at >= PROBE_AGAIN_MS) state.asked = { at: now, answer: ask(ctx) };
  const answer = await state.asked.answer;
  if (!answer.ok) throw disabled(`${answer.reason}. ${answer.fix}`);
  state.asked.at = Number.POSITIVE_INFINITY;
}

async function ask(ctx: Ctx): Promise<JailSupport> {
  try {
    return await jailSupport(sessionJail(ctx.config.data_dir));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { ok: false, reason: "the executable verk-jail is missing", fix: error.message };
  }
}

const disabled = (why: string) => new AppError("sessions_disabled", `Sessions are disabled on this server: ${why}`);
