/** Runs the trainers of ranks after the first on this node. Rank 0 decides, reports and saves; they only compute. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { errorText } from "../../lib/error_text.ts";
import { outOfMemoryKills } from "../../platform/machine/hardware.ts";
import type { NodeExit } from "../../platform/providers/protocol.ts";
import type { Supervisor } from "../../platform/workers/supervisor.ts";
import type { FromTrainer, ToTrainer, TrainTask } from "../../workers/protocol_trainer.ts";
import { connectFirst, joinWorker } from "./rank_link.ts";
import { asExit, trainerOptions } from "./tasks.ts";

type Ranks = {
  supervisor: Supervisor;
  /** The directory of the attempt. The end of each rank is written there, because only the supervisor of rank 0 reports. */
  dir: string;
  /** The task of the node, with all of its devices. */
  task: TrainTask;
  /** Ranks of this node. The first of them has device `from`. */
  indices: readonly number[];
  from: number;
  first: Parameters<typeof connectFirst>[0];
};

export const exitPath = (dir: string, rank: number) => join(dir, `rank-${rank}.json`);

export async function runRanks({ indices, ...common }: Ranks): Promise<void> {
  await Promise.all(indices.map((rank, i) => runRank({ ...common, rank, device: common.from + i })));
}

type One = Omit<Ranks, "indices"> & { rank: number; device: number };

async function runRank({ supervisor, dir, task: all, rank, device, first }: One) {
  const kills = outOfMemoryKills();
  const task = { ...all, rank, streams: true, gpus: all.gpus.slice(device, device + 1) };
  const worker = supervisor.spawn<FromTrainer, ToTrainer>(trainerOptions(task));
  const over = new AbortController();
  const fault: { message?: string } = {};
  const joinOthers = async () => {
    await worker.ready;
    worker.send(task);
    await joinWorker(await connectFirst(first, rank), worker.socketPath, 0, over.signal);
  };
  joinOthers().catch((error: unknown) => {
    fault.message = errorText(error);
    void worker.stop("it cannot join the others");
  });
  const exit = await worker.exited;
  over.abort(new Error("The run is over"));
  const end = asExit(exit, kills);
  const { message } = fault;
  const isCutOff = exit.kind === "stopped" && message !== undefined;
  const written: NodeExit = isCutOff ? { ...end, kind: "crashed", message } : end;
  writeFileSync(exitPath(dir, rank), JSON.stringify(written), { mode: 0o600 });
}
