/**
 * Opens the exchange between the ranks. On one machine, the other ranks are children of rank 0, and the shared memory is
 * their fourth descriptor. They die with rank 0, and the death of one of them ends rank 0, so that the server sees one
 * worker with one end.
 */
import { closeSync } from "node:fs";
import { compiled } from "../../../native/bundle/embedded.ts";
import { WorkerError } from "../../protocol.ts";
import { FromTrainer, type TrainTask } from "../../protocol_trainer.ts";
import { Trouble } from "../trouble.ts";
import { acceptPeers } from "./peers.ts";
import { joinSharedMemory, type LocalRanks, newSharedMemory } from "./shared_memory.ts";
import { joinStreams } from "./streams.ts";
import type { Ranks } from "./types.ts";

const SHARED_FD = 3;
const BEAT_MS = 1_000;
/** A rank may block its thread for this long: a micro-batch, or loading a large model. */
const QUIET_MS = 600_000;

type Options = { task: TrainTask; id: string; socketPath: string; onTurn: () => void };

/** Null if the task has one rank. */
export async function openRanks(options: Options): Promise<Ranks | null> {
  const { ranks: count, rank: index, streams } = options.task;
  if (count === 1) return null;
  if (!streams) return openLocalRanks(options);
  const { socketPath, onTurn } = options;
  const peers = await acceptPeers({ socketPath, count: index === 0 ? count - 1 : 1, onTurn });
  return joinStreams({ index, count, peers });
}

function openLocalRanks({ task, id, onTurn }: Options): LocalRanks {
  const { ranks: count, rank: index } = task;
  if (index > 0) return joined({ index, count, fd: SHARED_FD, onTurn });
  const fd = newSharedMemory(count);
  const children = Array.from({ length: count - 1 }, (_, i) => startRank({ ...task, rank: i + 1 }, { id, fd }));
  const ranks: LocalRanks = joined({ index, count, fd, onTurn: () => check() });
  closeSync(fd); // the mapping stays
  const watch = createWatch(ranks);
  const check = () => {
    onTurn();
    for (const child of children) child.mustLive();
    watch();
  };
  return ranks;
}

function joined(seat: Parameters<typeof joinSharedMemory>[0]): LocalRanks {
  const ranks = joinSharedMemory(seat);
  setInterval(ranks.beat, BEAT_MS).unref();
  return ranks;
}

/** Throws if a rank neither died nor showed a sign of life for a long time. */
function createWatch({ count, pulse }: LocalRanks) {
  const seen = Array.from({ length: count }, (_, rank) => ({ pulse: pulse(rank), at: performance.now() }));
  return () => {
    const now = performance.now();
    for (const [rank, last] of seen.entries()) {
      const beats = pulse(rank);
      if (beats !== last.pulse || rank === 0) seen[rank] = { pulse: beats, at: now };
      else if (now - last.at > QUIET_MS)
        throw new Error(`Rank ${rank} has not answered for ${QUIET_MS / 60_000} minutes`);
    }
  };
}

function startRank(task: TrainTask, { id, fd }: { id: string; fd: number }) {
  let failure: Error | null = null;
  const child = Bun.spawn([process.execPath, ...(compiled ? [] : [Bun.main]), "worker", "trainer"], {
    stdio: ["ignore", "ignore", "inherit", fd],
    serialization: "json",
    ipc(raw) {
      const message = FromTrainer.parse(raw);
      if (message.type === "ready") child.send(task);
      else if (message.type === "trouble") failure ??= new Trouble(message.kind, message.message);
      else if (message.type === "failed")
        failure ??= new WorkerError(message.kind, `Rank ${task.rank}: ${message.message}`);
    },
    onExit(_, code, signal) {
      if (signal === 9) process.kill(process.pid, "SIGKILL"); // a kill of one rank is a kill of the worker
      if (code !== 0)
        failure ??= new Error(`Rank ${task.rank} ended with ${signal === null ? `code ${code}` : `signal ${signal}`}`);
    },
  });
  child.send({ type: "start", id, parent_pid: process.pid, socket_path: "", beat_ms: BEAT_MS, ignores_term: true });
  return {
    mustLive() {
      if (failure) throw failure;
    },
  };
}
