/**
 * `verk node slurm_replica VERB`: replicas as jobs of Slurm. It runs on the login node. Slurm's queue, asked by the name of
 * the job, knows whether a replica lives.
 */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, lstatSync, mkdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { Duplex } from "node:stream";
import { z } from "zod";
import { UsageError } from "../../../lib/errors.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import { ambientEnv } from "../../../platform/config/config.ts";
import { readJson, writeFileAtomic } from "../../../platform/files.ts";
import { quote, TRY_LATER } from "../../../platform/providers/link.ts";
import { type ReplicaPlan, StartedReplica } from "../../../platform/providers/replicas.ts";
import {
  isActive,
  lossOf,
  type QueueRow,
  queueOf,
  rowOf,
  SlurmSettings,
  sbatchArgs,
  squeueArgs,
} from "../../../platform/providers/slurm_text.ts";
import { self } from "../../../platform/workers/self.ts";
import { layoutFor, runSlurm } from "../slurm.ts";
import { openTunnel } from "./tunnel.ts";
import { dirOf, printExit, startReplica, writePlan } from "./verbs.ts";

const POLL_MS = 2 * SECOND_MS; // each asks the controller of the cluster
const KILL_MS = 20 * SECOND_MS;
const STOP_MS = 50 * SECOND_MS; // a command of the link may take a minute

export async function slurmReplicaVerb(root: string, verb = "", settings = "", ...args: string[]): Promise<unknown> {
  const [first = "", second = ""] = args;
  const stop = (name: string) => stopReplica(root, name);
  switch (verb) {
    case "start": {
      const launch = (plan: ReplicaPlan) => submit(root, SlurmSettings.parse(JSON.parse(settings)), plan);
      const keep = z.array(z.string()).parse(JSON.parse(first));
      return await startReplica(root, keep, JSON.parse(second), { find: (name) => find(root, name), launch, stop });
    }
    case "stop":
      return await stop(first);
    case "attach":
      return await attach(root, first, second);
    default:
      throw new Error(`no verb ${verb}`);
  }
}

const jobName = (replica: string) => `verk-${replica}`;

async function rowFor(name: string): Promise<QueueRow | undefined> {
  return rowOf(queueOf(await runSlurm(squeueArgs([jobName(name)]))), jobName(name));
}

async function find(root: string, name: string): Promise<StartedReplica | undefined> {
  const row = await rowFor(name);
  return row && isActive(row) ? await readJson(join(dirOf(root, name), "tunnel.json"), StartedReplica) : undefined;
}

/** `worker` is a folder of the login node: each connection of a server has a socket of its own there. */
async function submit(root: string, settings: SlurmSettings, plan: ReplicaPlan): Promise<StartedReplica> {
  const { name, gpus } = plan;
  const layout = { gpus, gpu_type: plan.gpu_type, ranks: Math.max(1, gpus) };
  const { nodes, gres } = await layoutFor(settings, layout);
  if (nodes > 1) throw new Error(`a replica runs on one node, and no node that can be used has ${gpus} devices`);
  const dir = await writePlan(root, plan);
  const started = { name, worker: join(tmpdir(), `verk-${randomBytes(8).toString("hex")}`), control: "" };
  await writeFileAtomic(join(dir, "tunnel.json"), JSON.stringify(started));
  const argv = self("node", "replica_run", resolve(root), name).map(quote).join(" ");
  const batch = { name: jobName(name), nodes, gpus, gres, dir };
  await runSlurm(sbatchArgs(settings, batch, "--no-requeue"), `#!/bin/sh\nexec ${argv}\n`);
  return started;
}

async function stopReplica(root: string, name: string): Promise<null> {
  const dir = dirOf(root, name);
  if (existsSync(dir)) writeFileSync(join(dir, "stop"), "", { mode: 0o600 });
  const since = performance.now();
  for (;;) {
    const row = await rowFor(name);
    if (!row || !isActive(row)) break;
    const waited = performance.now() - since;
    if (waited > STOP_MS) throw new UsageError(`Slurm still has the job ${row.id}`, TRY_LATER);
    await runSlurm(["scancel", ...(waited > KILL_MS ? ["--signal=KILL", "--full"] : []), row.id]);
    await Bun.sleep(POLL_MS);
  }
  rmSync(dir, { recursive: true, force: true });
  return null;
}

/** The server's lines pass to the replica, and connections to `socket` too, while the connection of this process lasts. */
async function attach(root: string, name: string, socket: string): Promise<undefined> {
  const dir = dirOf(root, name);
  const { control, ended } = serverLines();
  for (;;) {
    const row = await rowFor(name);
    if (!row || !isActive(row))
      return await printExit(dir, { kind: "crashed", message: lossOf(row).message, tail: "" });
    if (row.state === "RUNNING" && existsSync(join(dir, "sockets.json"))) {
      await connectTo(root, name, { jobId: row.id, socket, control, ended });
      return undefined;
    }
    if (await Promise.race([ended, Bun.sleep(POLL_MS).then(() => false)])) return undefined;
  }
}

/** Reads at once: the end of the lines is the only sign that the server has ended. */
function serverLines(): { control: Duplex; ended: Promise<true> } {
  const ended = Promise.withResolvers<true>();
  const control = new Duplex({
    read() {},
    write: (chunk: Buffer, _encoding, done) => void process.stdout.write(chunk, () => done()),
  });
  process.stdin.on("data", (chunk: Buffer) => control.push(chunk));
  process.stdin.on("end", () => ended.resolve(true));
  return { control, ended: ended.promise };
}

type Connection = { jobId: string; socket: string; control: Duplex; ended: Promise<true> };

/** `srun` starts a process beside the replica, in the same job, and joins its standard input and output to this one. */
async function connectTo(root: string, name: string, { jobId, socket, control, ended }: Connection) {
  const [program = "", ...args] = [
    ...["srun", `--jobid=${jobId}`, "--overlap", "--nodes=1", "--ntasks=1", "--unbuffered", "--quiet"],
    ...self("node", "replica_pipe", resolve(root), name),
  ];
  makeFolder(dirname(socket));
  rmSync(socket, { force: true });
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"], env: { ...ambientEnv(), LC_ALL: "C" } });
  const tunnel = openTunnel({ input: child.stdout, output: child.stdin });
  tunnel.open(control);
  const server = createServer((near) => tunnel.open(near));
  server.listen(socket);
  await Promise.race([tunnel.over, ended]);
  server.close();
  child.kill("SIGTERM");
  process.stdin.destroy();
  rmSync(socket, { force: true });
  try {
    rmdirSync(dirname(socket));
  } catch {
    // a newer connection is there
  }
}

/** The temporary directory of a login node is open to all its users. */
function makeFolder(folder: string) {
  if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
  const { uid, mode } = lstatSync(folder);
  if (uid !== process.getuid?.() || (mode & 0o170077) !== 0o040000)
    throw new Error(`${folder} is not a private folder of this user`);
}
