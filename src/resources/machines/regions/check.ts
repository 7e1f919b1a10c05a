/**
 * Checks a region step by step, so that a mistake in its address, its key or its directory has a sentence of its own. Each
 * step is short and changes nothing on the node, except that the work directory is made. What the node says is never
 * trusted: it is shown as text, cut.
 */
import { randomUUID } from "node:crypto";
import type { Ctx } from "../../../context.ts";
import { errorText } from "../../../lib/error_text.ts";
import { AppError } from "../../../lib/errors.ts";
import { KIB, SECOND_MS } from "../../../lib/units.ts";
import { scanHostKey } from "../../../platform/providers/host_key.ts";
import type { Link } from "../../../platform/providers/link.ts";
import { NodeError } from "../../../platform/providers/types.ts";
import { DEVICES, fixFor, foundDevices, foundSpace, MAKE_DIR, SLURM_VERSION } from "./check_text.ts";
import { AT_ONCE, AT_ONCE_EACH, refresh } from "./observe.ts";
import { addressOf, linkTo } from "./provider.ts";
import { type CheckRegion, type CheckStep, fingerprintOf, isHere, type RegionCheck } from "./schema.ts";
import type { RegionRow } from "./table.ts";

const STEP_MS = 20 * SECOND_MS;
/** A copy of the executable may take longer than a caller waits. It goes on. */
const PROGRAM_MS = 45 * SECOND_MS;
const ANSWER_BYTES = 16 * KIB;
const SHOWN = 300;

export type Target = Pick<
  RegionRow,
  "workspaceId" | "kind" | "address" | "port" | "user" | "sshKeyId" | "workDir" | "hostKey" | "slurm"
>;

type Check = { name: CheckStep["name"]; run: () => Promise<string> };

/** A region that is not stored yet. Its key must be. */
export const checkNew = (ctx: Ctx, workspaceId: string, input: CheckRegion): Promise<RegionCheck> => {
  const { kind, address = "", port, user = "", ssh_key_id: sshKeyId = "", work_dir: workDir } = input;
  const target = {
    workspaceId,
    kind,
    address,
    port,
    user,
    sshKeyId,
    workDir,
    hostKey: input.host_key ?? "",
    slurm: null,
  };
  return inTurn(ctx, workspaceId, () => check(ctx, target, []));
};

/** A stored region: the last step asks the program there for its hardware, and the region shows the answer. */
export const checkStored = (ctx: Ctx, row: RegionRow): Promise<RegionCheck> =>
  inTurn(ctx, row.workspaceId, () => check(ctx, row, [{ name: "program", run: () => askProgram(ctx, row) }]));

/** Checks count among the questions to nodes, so that a workspace cannot start ssh clients without end. */
async function inTurn<T>(ctx: Ctx, workspaceId: string, work: () => Promise<T>): Promise<T> {
  const { asking, askingOf } = ctx.state.regions;
  if (asking.size >= AT_ONCE || (askingOf.get(workspaceId) ?? 0) >= AT_ONCE_EACH)
    throw new AppError("rate_limited", "Other regions are being asked now: try again in some seconds", {
      retryAfterSeconds: 5,
    });
  const key = `check/${randomUUID()}`;
  const end = ctx.state.regions.begin(key, workspaceId);
  const result = work().finally(end);
  asking.set(key, result.then(nothing, nothing));
  return await result;
}

const nothing = () => {};

async function check(ctx: Ctx, target: Target, more: readonly Check[]): Promise<RegionCheck> {
  const state = { hostKey: target.hostKey };
  const steps: CheckStep[] = [];
  for (const { name, run } of [...checksOf(ctx, target, state), ...more]) {
    if (steps.some(({ state }) => state === "failed")) {
      steps.push({ name, state: "skipped", message: "An earlier step failed", fix: null, ms: 0 });
      continue;
    }
    const begun = performance.now();
    const ms = () => Math.round(performance.now() - begun);
    try {
      const message = await run();
      steps.push({ name, state: "ok", message: message.slice(0, SHOWN), fix: null, ms: ms() });
    } catch (error) {
      const message = errorText(error).slice(0, SHOWN);
      steps.push({ name, state: "failed", message, fix: fixFor(name, message, target), ms: ms() });
    }
  }
  const hostKey = state.hostKey === "" ? null : state.hostKey;
  return {
    object: "region_check",
    ok: steps.every(({ state }) => state === "ok"),
    host_key: hostKey,
    host_key_fingerprint: hostKey && fingerprintOf(hostKey),
    steps,
  };
}

/** `state`: the host key, once it is known. */
function checksOf(ctx: Ctx, target: Target, state: { hostKey: string }): Check[] {
  const { address, port, workDir, kind } = target;
  const link = (): Link => linkTo(ctx, { ...target, hostKey: state.hostKey });
  const say = async (...argv: string[]) => {
    const bytes = await link().run({ argv, mostBytes: ANSWER_BYTES, timeoutMs: STEP_MS });
    return new TextDecoder().decode(bytes).trim();
  };
  const remote: Check[] = [
    { name: "address", run: async () => `${address} is ${await addressOf(ctx, address)}` },
    {
      name: "host_key",
      run: async () => {
        const shown = await scanHostKey(await addressOf(ctx, address), port);
        mustBeSame(shown, state.hostKey);
        if (state.hostKey === "") state.hostKey = shown;
        return `The node shows the host key ${fingerprintOf(shown)}`;
      },
    },
    { name: "sign_in", run: async () => `Signed in as ${target.user}: ${await say("uname", "-sm")}` },
  ];
  return [
    ...(isHere(target) ? [] : remote),
    { name: "work_dir", run: async () => foundSpace(await say("sh", "-c", MAKE_DIR, "check", workDir)) },
    ...(kind === "slurm" ? [{ name: "slurm" as const, run: () => say("sh", "-c", SLURM_VERSION) }] : []),
    { name: "devices", run: async () => foundDevices(await say("sh", "-c", DEVICES), kind) },
  ];
}

/** Keys of different types are no contradiction: a node has several. */
function mustBeSame(shown: string, pinned: string) {
  const [type] = shown.split(" ");
  if (pinned === "" || pinned === shown || !pinned.startsWith(`${type} `)) return;
  throw new NodeError(`The node shows the host key ${fingerprintOf(shown)}, not the pinned ${fingerprintOf(pinned)}`);
}

async function askProgram(ctx: Ctx, row: RegionRow): Promise<string> {
  const late = new AbortController();
  const answer = refresh(ctx, row).finally(() => late.abort());
  answer.catch(nothing); // the row has the error, also of an answer after the time
  const timeout = ctx.clock.sleep(PROGRAM_MS, late.signal).then(() => undefined);
  const info = await Promise.race([answer, timeout]);
  if (!info) return "The program is still being copied there: the region is ready once it answers";
  return `Verk ${info.version} answers: ${info.cpus} processors`;
}
