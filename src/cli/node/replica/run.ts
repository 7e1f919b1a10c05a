/**
 * `verk node replica_run`: the supervisor of one replica. It starts the serving worker and passes its messages to a
 * server, which may be away for a while. Requests reach the worker's own socket.
 */

import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { withWorkers } from "../../../app.ts";
import { errorText } from "../../../lib/error_text.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import { VERSION } from "../../../lib/version.ts";
import { ambientEnv, loadConfig } from "../../../platform/config/config.ts";
import { acquireDataLock } from "../../../platform/db/data_lock.ts";
import { writeFileAtomic } from "../../../platform/files.ts";
import { listGpus } from "../../../platform/machine/hardware.ts";
import { type ReplicaExit, ReplicaPlan, replicaDir } from "../../../platform/providers/replicas.ts";
import type { Supervisor } from "../../../platform/workers/supervisor.ts";
import { FromServing, ToServing } from "../../../workers/protocol.ts";
import { pathIn } from "../files.ts";
import { cpuCount, isScheduled } from "../scheduler.ts";
import { openControl } from "./control.ts";

const BEAT_MS = SECOND_MS / 4;
/** Slurm sends SIGHUP before the time limit, and SIGTERM when it takes the node back. */
const SIGNALS = ["SIGTERM", "SIGHUP"] as const;

export async function superviseReplica(rootPath: string, name: string): Promise<undefined> {
  const root = resolve(rootPath);
  const dir = join(root, replicaDir(name));
  const lock = acquireDataLock(dir, { version: VERSION });
  const sockets = mkdtempSync(join(tmpdir(), "verk-"));
  let isForgotten = false;
  try {
    const plan = ReplicaPlan.parse(JSON.parse(readFileSync(join(dir, "plan.json"), "utf8")));
    const data = join(root, "data");
    mkdirSync(data, { recursive: true, mode: 0o700 });
    const config = loadConfig({ env: { HOME: root }, flags: { ...plan.settings, data_dir: data } });
    isForgotten = await withWorkers(config, (supervisor) => serve(supervisor, { root, dir, data, plan, sockets }));
  } catch (error) {
    const message = errorText(error);
    await writeFileAtomic(join(dir, "exit.json"), JSON.stringify({ kind: "crashed", message, tail: "" }));
  } finally {
    rmSync(sockets, { recursive: true, force: true });
    lock.release();
  }
  const isRemoved = !existsSync(join(dir, "plan.json")); // by a stop before the start
  if (isForgotten || isRemoved) rmSync(dir, { recursive: true, force: true });
  return undefined;
}

type Replica = { root: string; dir: string; data: string; plan: ReplicaPlan; sockets: string };

/** True: no server was heard of within the lease. */
async function serve(supervisor: Supervisor, { root, dir, data, plan, sockets }: Replica): Promise<boolean> {
  const cards = await cardsFor(plan);
  const machine = { data_dir: data, threads: cpuCount(), gpus: cards.map((_, i) => i) };
  const load = ToServing.parse({ ...plan.load, ...machine, model_path: pathIn(root, String(plan.load["model_path"])) });
  if (load.type !== "load") throw new Error("the plan loads no model");
  const attached = new Set<string>();
  const worker = supervisor.spawn<FromServing, ToServing>({
    kind: "serving",
    incoming: FromServing,
    grants: { reads: [load.model_path], gpu: cards.length > 0 },
    extraEnv: { CUDA_VISIBLE_DEVICES: cards.join() },
    onMessage(message) {
      if (message.type === "attached") attached.add(message.name);
      control.add(message);
    },
  });
  const pass = async (message: ToServing) => {
    if (message.type === "detach" && message.name !== null) attached.delete(message.name);
    if (message.type !== "attach") return void worker.send(message);
    const { name } = message;
    if (attached.has(name)) return control.add({ type: "attached", name }); // by an earlier server
    try {
      const path = pathIn(root, message.path);
      worker.send({ ...message, path: worker.link(path) ?? (await worker.bring(path)) });
    } catch (error) {
      control.add({ type: "unattached", name, error: errorText(error) });
    }
  };
  const control = openControl(join(sockets, "control"), (message) => void pass(ToServing.parse(message)));
  const stop = () => void worker.stop("its server ends it");
  let isForgotten = false;
  const beat = setInterval(() => {
    isForgotten ||= performance.now() - control.heardAt() > plan.lease_ms;
    if (isForgotten || existsSync(join(dir, "stop"))) stop();
  }, BEAT_MS);
  for (const signal of SIGNALS) process.on(signal, stop);
  worker.ready.then(
    () => worker.send(load),
    () => {}, // `exited` has the reason
  );
  const paths = { worker: worker.socketPath, control: join(sockets, "control") };
  await writeFileAtomic(join(dir, "sockets.json"), JSON.stringify(paths));
  const { kind, message, tail } = await worker.exited;
  clearInterval(beat);
  for (const signal of SIGNALS) process.off(signal, stop);
  const exit: ReplicaExit = { kind, message, tail };
  await writeFileAtomic(join(dir, "exit.json"), JSON.stringify(exit));
  await control.end(exit);
  return isForgotten;
}

async function cardsFor({ gpus, gpu_type: type }: ReplicaPlan): Promise<string[]> {
  if (gpus === 0) return [];
  if (isScheduled()) return (ambientEnv()["CUDA_VISIBLE_DEVICES"] ?? "").split(",").slice(0, gpus);
  const cards = (await listGpus()).filter((gpu) => gpu.type === type).map(({ uuid }) => uuid);
  if (cards.length < gpus) throw new Error(`this node shows ${cards.length} GPUs of type ${type}, not ${gpus}`);
  return cards.slice(0, gpus);
}
