/** Runs the ranks of one training side by side in this process. */
import { joinSharedMemory, newSharedMemory } from "../../../src/workers/trainer/ranks/shared_memory.ts";
import { runTraining } from "../../trainer_kit.ts";

export function seats(count: number, parts = count) {
  const fd = newSharedMemory(count);
  return Array.from({ length: count }, (_, index) => joinSharedMemory({ index, count, parts, fd, onTurn() {} }));
}

/** Returns the run of rank 0. */
export async function runRanks(count: number, parts: number, options: Parameters<typeof runTraining>[0]) {
  const runs = await Promise.all(seats(count, parts).map((ranks) => runTraining({ ...options, ranks })));
  return runs[0]!;
}
