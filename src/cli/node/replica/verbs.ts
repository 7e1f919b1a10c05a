/** Starts, joins and ends replicas by their files. The lock of a replica proves that its supervisor lives. */
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { z } from "zod";
import { SECOND_MS } from "../../../lib/units.ts";
import { isHeld } from "../../../platform/db/data_lock.ts";
import { readJson, writeFileAtomic } from "../../../platform/files.ts";
import {
  deploymentOf,
  REPLICA,
  ReplicaExit,
  ReplicaPlan,
  ReplicaSockets,
  replicaDir,
  type StartedReplica,
} from "../../../platform/providers/replicas.ts";
import { self } from "../../../platform/workers/self.ts";

const POLL_MS = 50;
const START_MS = 30 * SECOND_MS;
const STOP_MS = 20 * SECOND_MS; // a worker has less to end by itself

export const dirOf = (root: string, name: string) =>
  join(resolve(root), replicaDir(z.string().regex(REPLICA).parse(name)));

/** The way replicas run: as processes of this machine, or as jobs of Slurm. */
export type ReplicaHost = {
  /** Undefined if the replica does not live any more. */
  find: (name: string) => Promise<StartedReplica | undefined>;
  launch: (plan: ReplicaPlan) => Promise<StartedReplica>;
  stop: (name: string) => Promise<null>;
};

const onThisMachine = (root: string): ReplicaHost => ({
  find: (name) => findReplica(root, name),
  launch: async (plan) => ({ name: plan.name, ...(await launch(root, plan)) }),
  stop: (name) => stopReplica(root, name),
});

/** A replica of the deployment with the same plan is taken as it is: its server was restarted. The others end. */
export async function startReplica(
  root: string,
  keep: readonly string[],
  input: unknown,
  host: ReplicaHost = onThisMachine(root),
): Promise<StartedReplica> {
  const plan = ReplicaPlan.parse(input);
  const folder = join(resolve(root), "replicas");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const others = readdirSync(folder).filter(
    (name) => REPLICA.test(name) && deploymentOf(name) === deploymentOf(plan.name) && !keep.includes(name),
  );
  let running: StartedReplica | undefined;
  for (const name of others) {
    const same = running || !(await isSame(root, name, plan)) ? undefined : await host.find(name);
    if (same) running = same;
    else await host.stop(name);
  }
  return running ?? (await host.launch(plan));
}

const specOf = ({ name: _, ...spec }: ReplicaPlan) => JSON.stringify(spec);

async function isSame(root: string, name: string, plan: ReplicaPlan): Promise<boolean> {
  const dir = dirOf(root, name);
  const earlier = await readJson(join(dir, "plan.json"), ReplicaPlan).catch(() => undefined);
  return earlier !== undefined && specOf(earlier) === specOf(plan) && !existsSync(join(dir, "stop"));
}

async function findReplica(root: string, name: string): Promise<StartedReplica | undefined> {
  const dir = dirOf(root, name);
  if (!isHeld(dir).held) return undefined;
  const sockets = await readJson(join(dir, "sockets.json"), ReplicaSockets).catch(() => undefined);
  return sockets && { name, ...sockets };
}

export async function writePlan(root: string, plan: ReplicaPlan): Promise<string> {
  const dir = dirOf(root, plan.name);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  await writeFileAtomic(join(dir, "plan.json"), JSON.stringify(plan));
  return dir;
}

/** The supervisor has a session of its own, so it outlives this process and the connection. */
async function launch(root: string, plan: ReplicaPlan): Promise<ReplicaSockets> {
  const dir = await writePlan(root, plan);
  const log = openSync(join(dir, "supervisor.log"), "a", 0o600);
  try {
    const argv = self("node", "replica_run", resolve(root), plan.name);
    Bun.spawn(argv, { cwd: resolve(root), stdin: "ignore", stdout: "ignore", stderr: log, detached: true }).unref();
  } finally {
    closeSync(log);
  }
  for (let waited = 0; waited < START_MS; waited += POLL_MS) {
    const sockets = await readJson(join(dir, "sockets.json"), ReplicaSockets).catch(() => undefined);
    if (sockets) return sockets;
    const exit = await exitOf(dir);
    if (exit) throw new Error(exit.message);
    await Bun.sleep(POLL_MS);
  }
  await stopReplica(root, plan.name);
  throw new Error(`the supervisor of the replica did not start within ${START_MS / SECOND_MS} s`);
}

const exitOf = (dir: string) => readJson(join(dir, "exit.json"), ReplicaExit).catch(() => undefined);

export async function stopReplica(root: string, name: string): Promise<null> {
  const dir = dirOf(root, name);
  if (!existsSync(dir)) return null;
  writeFileSync(join(dir, "stop"), "", { mode: 0o600 });
  for (let waited = 0; isHeld(dir).held; waited += POLL_MS) {
    if (waited >= STOP_MS) kill(isHeld(dir).holder?.pid);
    await Bun.sleep(POLL_MS);
  }
  await removeSockets(dir);
  await rm(dir, { recursive: true, force: true });
  return null;
}

/** A supervisor that was killed left the folders of its sockets in the temporary directory. */
async function removeSockets(dir: string) {
  const sockets = await readJson(join(dir, "sockets.json"), ReplicaSockets).catch(() => undefined);
  for (const path of Object.values(sockets ?? {})) {
    const [folder = ""] = relative(tmpdir(), path).split("/");
    if (folder.startsWith("verk-")) await rm(join(tmpdir(), folder), { recursive: true, force: true });
  }
}

/** Its worker ends with it. */
function kill(pid: number | undefined) {
  if (pid === undefined) return;
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // it has ended
  }
}

const GONE: ReplicaExit = { kind: "crashed", message: "The node has no such replica any more", tail: "" };

/** For the server: the reason that the replica wrote itself, if it did. */
export async function printExit(dir: string, otherwise = GONE): Promise<undefined> {
  const exit = (await exitOf(dir)) ?? otherwise;
  await Bun.write(Bun.stdout, `${JSON.stringify({ exit })}\n`);
  return undefined;
}

/** Standard input and output of this process become those of the control socket. */
export async function attachReplica(root: string, name: string): Promise<undefined> {
  const dir = dirOf(root, name);
  const text = existsSync(join(dir, "sockets.json")) ? readFileSync(join(dir, "sockets.json"), "utf8") : "";
  if (text === "" || !isHeld(dir).held) return await printExit(dir);
  const { control } = ReplicaSockets.parse(JSON.parse(text));
  const socket = connect(control);
  const isOpen = await new Promise<boolean>((done) => {
    socket.once("connect", () => done(true));
    socket.once("error", () => done(false));
  });
  if (!isOpen) return await printExit(dir);
  process.stdin.pipe(socket);
  socket.pipe(process.stdout);
  await new Promise<void>((done) => {
    socket.once("close", () => done());
    process.stdin.once("end", () => done());
  });
  socket.destroy();
  process.stdin.destroy();
  return undefined;
}
