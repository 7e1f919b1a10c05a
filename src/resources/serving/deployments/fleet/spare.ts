/**
 * Processes for replicas, and a standby process while a deployment is parked. The standby has everything but weights,
 * so a wake does not wait for a process, a thread, the libraries and the vocabulary. It holds memory of a GPU only with
 * `serving.standby_card`, by a lease that gives way to every other one.
 */
import type { Ctx } from "../../../../context.ts";
import { MIB } from "../../../../lib/units.ts";
import type { Exit, Worker } from "../../../../platform/workers/types.ts";
import { FromServing, type ToServing } from "../../../../workers/protocol.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import * as models from "../../models/service.ts";
import { openStore } from "../prefixes/store.ts";
import type { DeploymentRow } from "../table.ts";
import { liveOf } from "./fleet.ts";
import { usableParts } from "./parts.ts";

export type ServingWorker = Worker<FromServing, ToServing>;
/** Handles the messages and the exit of a process. */
export type Owner = { onMessage: (message: FromServing) => unknown; onExit: (exit: Exit) => unknown };

/**
 * `model`: the path of the only model that it may serve; undefined: any. `folder`: the only one for blocks of prompts that it
 * can use. `holder`: of its lease.
 */
export type Spare = {
  worker: ServingWorker;
  cards: string;
  model: string | undefined;
  folder: string | undefined;
  owner: Owner | undefined;
  holder: string | undefined;
};

const PAUSE_MS = 60_000; // a standby that crashed is not replaced at once
const KIND = "standby";
const CONTEXT_BYTES = 576 * MIB; // 545 MiB were seen on an H200: the context, the kernels, 16 MiB of weights

type Obtained = { worker: ServingWorker; paths: string[] };

/**
 * `cards`: UUIDs of the GPUs that the process sees, in this order, because the driver numbers them in another one; none:
 * the CPU. `files`: the model, then its projector. `folder`: where it keeps prompts.
 */
type Needs = { cards: readonly string[]; files: readonly string[]; folder: string | undefined };

/** `paths` of the result are the paths under which the process may read the files. */
export function obtain(ctx: Ctx, { cards, files, folder }: Needs, owner: Owner): Obtained {
  const [modelPath] = files;
  const state = ctx.state.deployments;
  const { spare: ready } = state;
  const isFitting =
    ready?.cards === cards.join() && (ready.model ?? modelPath) === modelPath && ready.folder === folder;
  const fitting = isFitting ? ready : undefined;
  const linked = files.map((file) => fitting?.worker.link(file)); // undefined: it is on another file system, so a new process gets access to it
  const isLinked = linked.every((path) => path !== undefined);
  if (isLinked) state.spare = undefined;
  const spare = fitting && isLinked ? fitting : start(ctx, { cards, model: undefined, folder }, files);
  spare.owner = owner;
  letGo(ctx, spare); // the memory of a replica is leased without its context
  return { worker: spare.worker, paths: isLinked ? (linked as string[]) : [...files] };
}

/** `purpose` undefined: no standby is needed. */
export function keepSpare(ctx: Ctx, purpose: Purpose | undefined) {
  const state = ctx.state.deployments;
  const { spare: old } = state;
  if (
    (old &&
      purpose &&
      old.cards === purpose.cards.join() &&
      old.model === purpose.model &&
      old.folder === purpose.folder) ||
    ctx.closing.aborted
  )
    return;
  if (!old && !purpose) return;
  void old?.worker.stop("no deployment is parked, or another one");
  state.spare = purpose && ctx.clock.steady() >= state.spareNotBefore ? start(ctx, purpose) : undefined;
  if (state.spare && purpose) void prepare(ctx, state.spare, purpose);
}

async function prepare(ctx: Ctx, spare: Spare, purpose: Purpose) {
  const { worker } = spare;
  try {
    await worker.ready;
    const card = await hold(ctx, spare, purpose);
    if (spare.owner !== undefined || ctx.state.deployments.spare !== spare) return; // a wake has it, or it has ended
    const model_path = (purpose.model !== undefined && worker.link(purpose.model)) || null;
    worker.send({ type: "prepare", data_dir: ctx.config.data_dir, cuda: purpose.cards.length > 0, model_path, card });
  } catch (error) {
    letGo(ctx, spare);
    ctx.log.debug("the standby process was not prepared", { error }); // onExit handles its end
  }
}

/** True: the memory of a context is leased for the process. */
async function hold(ctx: Ctx, spare: Spare, { cards, model, sleeper }: Purpose): Promise<boolean> {
  const state = ctx.state.deployments;
  const [device] = cards;
  if (!ctx.config.serving.standby_card || model === undefined || device === undefined) return false;
  if (ctx.clock.steady() < state.cardNotBefore) return false;
  const holder = `${KIND}/${spare.worker.id}`;
  const { workspaceId } = sleeper;
  const how = { gpuCount: 1, priority: 0, pinned: false, mayEvict: false };
  const grant = await gpu.acquire(ctx, { holder, kind: KIND, workspaceId, bytes: CONTEXT_BYTES, device, ...how });
  if (grant.status !== "granted" || state.spare !== spare) {
    gpu.release(ctx, holder);
    return false;
  }
  spare.holder = holder;
  return true;
}

function letGo(ctx: Ctx, spare: Spare) {
  if (spare.holder !== undefined) gpu.release(ctx, spare.holder);
  spare.holder = undefined;
}

/** Called once, at the start. The lease of a standby process is always idle, longer than those of deployments. */
export function registerStandby(ctx: Ctx) {
  const state = ctx.state.deployments;
  const holderNow = () => state.spare?.holder;
  gpu.registerKind(ctx, KIND, {
    idle: () => (holderNow() === undefined ? [] : [{ holder: holderNow() as string, since: 0 }]),
    async evict(holder) {
      const { spare } = state;
      if (spare?.holder !== holder) return;
      state.cardNotBefore = ctx.clock.steady() + PAUSE_MS;
      await spare.worker.stop("its memory is needed"); // onExit releases the lease
    },
  });
}

type SpareFor = { cards: readonly string[]; model: string | undefined; folder: string | undefined };

function start(ctx: Ctx, { cards, model, folder }: SpareFor, reads: readonly string[] = []): Spare {
  const state = ctx.state.deployments;
  const spare: Omit<Spare, "worker"> = { cards: cards.join(), model, folder, owner: undefined, holder: undefined };
  const worker = ctx.supervisor.spawn<FromServing, ToServing>({
    kind: "serving",
    incoming: FromServing,
    grants: { reads, gpu: cards.length > 0, writes: folder === undefined ? [] : [folder] },
    extraEnv: { CUDA_VISIBLE_DEVICES: spare.cards },
    onMessage: (message) => spare.owner?.onMessage(message),
    onExit: (exit) => {
      letGo(ctx, whole);
      if (state.spare === whole) {
        state.spare = undefined;
        if (exit.kind !== "stopped") state.spareNotBefore = ctx.clock.steady() + PAUSE_MS;
      }
      return spare.owner?.onExit(exit);
    },
  });
  const whole: Spare = Object.assign(spare, { worker });
  return whole;
}

/**
 * `cards`: UUIDs of the GPUs that the process sees; none: the CPU. `model`: the only model that may wake, or undefined.
 * `folder`: of the prompts of the sleeper's workspace, to which the process is confined; others start a process of their own. A
 * process that has read a model serves no other one: it may belong to another workspace.
 */
type Purpose = SpareFor & { sleeper: DeploymentRow };

/** `sleepers`: the parked deployments. Undefined: no standby process is needed, or nothing is known of its GPU yet. */
export function wantedFor(ctx: Ctx, sleepers: readonly DeploymentRow[]): Purpose | undefined {
  const [sleeper] = sleepers;
  if (!sleeper) return undefined;
  const cards = liveOf(ctx, sleeper.id).cards ?? (sleeper.gpuType === "cpu" ? [] : undefined);
  if (!cards) return undefined;
  const isOwn = cards.length === 1 && ctx.config.serving.decoder !== "library"; // the library reads a model in one go
  const [path, ...others] = isOwn ? new Set(sleepers.map((row) => pathOf(ctx, row))) : [];
  const folder = openStore(ctx, sleeper.workspaceId)?.dir;
  return { cards, model: others.length === 0 ? path : undefined, folder, sleeper };
}

/** The base of an adapter. Undefined: the file is not here. */
function pathOf(ctx: Ctx, row: DeploymentRow): string | undefined {
  const parts = usableParts(ctx, row);
  return "ready" in parts ? models.pathOf(ctx, parts.ready.base) : undefined;
}
