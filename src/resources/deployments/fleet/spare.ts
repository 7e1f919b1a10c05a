/**
 * Processes for replicas, and a standby process while a deployment is parked. The standby has everything but a model,
 * so a wake does not wait for a process, a thread and the libraries. It holds no GPU memory.
 */
import type { Ctx } from "../../../context.ts";
import type { Exit, Worker } from "../../../platform/workers/types.ts";
import { FromServing, type ToServing } from "../../../workers/protocol.ts";

export type ServingWorker = Worker<FromServing, ToServing>;
/** Handles the messages and the exit of a process. */
export type Owner = { onMessage: (message: FromServing) => unknown; onExit: (exit: Exit) => unknown };

export type Spare = { worker: ServingWorker; cards: string; owner: Owner | undefined };

const PAUSE_MS = 60_000; // a standby that crashed is not replaced at once

type Obtained = { worker: ServingWorker; modelPath: string };

/**
 * `cards`: UUIDs of the GPUs that the process sees, in this order, because the driver numbers them in another one; none:
 * the CPU. `modelPath` of the result is the path under which the process may read the model.
 */
export function obtain(ctx: Ctx, cards: readonly string[], modelPath: string, owner: Owner): Obtained {
  const state = ctx.state.deployments;
  const found = state.spare?.cards === cards.join() ? state.spare : undefined;
  const linked = found?.worker.link(modelPath); // undefined: the model is on another file system, so a new process gets access to it
  if (linked !== undefined) state.spare = undefined;
  const spare = found && linked !== undefined ? found : start(ctx, cards, [modelPath]);
  spare.owner = owner;
  return { worker: spare.worker, modelPath: linked ?? modelPath };
}

/** `cards` undefined: no standby is needed. */
export function keepSpare(ctx: Ctx, cards: readonly string[] | undefined) {
  const state = ctx.state.deployments;
  const wanted = cards?.join();
  if (state.spare?.cards === wanted || ctx.closing.aborted) return;
  void state.spare?.worker.stop("no deployment is parked");
  state.spare = cards && ctx.clock.now() >= state.spareNotBefore ? start(ctx, cards) : undefined;
  const worker = state.spare?.worker;
  worker?.ready.then(
    () => worker.send({ type: "prepare", data_dir: ctx.config.data_dir, cuda: cards?.length !== 0 }),
    () => {}, // onExit handles it
  );
}

function start(ctx: Ctx, cards: readonly string[], reads: readonly string[] = []): Spare {
  const state = ctx.state.deployments;
  const spare: Omit<Spare, "worker"> = { cards: cards.join(), owner: undefined };
  const worker = ctx.supervisor.spawn<FromServing, ToServing>({
    kind: "serving",
    incoming: FromServing,
    grants: { reads, gpu: cards.length > 0 },
    extraEnv: { CUDA_VISIBLE_DEVICES: spare.cards },
    onMessage: (message) => spare.owner?.onMessage(message),
    onExit: (exit) => {
      if (state.spare?.worker === worker) {
        state.spare = undefined;
        state.spareNotBefore = ctx.clock.now() + PAUSE_MS;
      }
      return spare.owner?.onExit(exit);
    },
  });
  return Object.assign(spare, { worker });
}
