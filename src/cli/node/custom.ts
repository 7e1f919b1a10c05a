/** Runs the command of a custom job in a jail of this node. Its changes and its output become files that the server pulls. */
import { join } from "node:path";
import { MIB } from "../../lib/units.ts";
import type { Config } from "../../platform/config/config.ts";
import { UNCOUNTED, writeTemp } from "../../platform/files.ts";
import { gpuNodes, readDriver } from "../../platform/machine/gpu_nodes.ts";
import { describeMachine, listGpus } from "../../platform/machine/hardware.ts";
import {
  CUSTOM_ENDS,
  type CustomPlan,
  jobDir,
  type NodeExit,
  type NodePlan,
  TIME_LIMIT,
} from "../../platform/providers/protocol.ts";
import type { Supervisor } from "../../platform/workers/supervisor.ts";
import { openCollection } from "../../sandbox/files/collect.ts";
import type { ForeignDir } from "../../sandbox/files/foreign_dir.ts";
import { jobsDir } from "../../sandbox/files/foreign_dir.ts";
import { makeSandboxDir, volumeOf, workspaceOf } from "../../sandbox/files/sandbox_dir.ts";
import { openStage } from "../../sandbox/files/stage.ts";
import { removeTree } from "../../sandbox/files/trees.ts";
import { limitPoints, linesOf, pointsOf, throttled } from "../../sandbox/jail/command_output.ts";
import { type Cards, customJail, DATASET, failureOf, OUTPUT } from "../../sandbox/jail/custom_jail.ts";
import { startJailed } from "../../sandbox/jail/jail.ts";
import { sessionJail, sessionOwner } from "../../sandbox/jail/session_jail.ts";
import { jailSupport } from "../../sandbox/jail/support.ts";
import { FromProxy, type ToProxy } from "../../workers/protocol_proxy.ts";
import type { FromTrainer } from "../../workers/protocol_trainer.ts";
import { type Before, collectResults } from "./custom_results.ts";
import type { Records } from "./records.ts";
import { watchRequests } from "./requests.ts";
import { allottedCpus, nodeCount } from "./scheduler.ts";
import { shownGpus } from "./tasks.ts";
import { unpack } from "./unpack.ts";

const LAST_LINES = 20;
const WORKSPACE = "/workspace/";

type Run = {
  root: string;
  /** The directory of the attempt. */
  dir: string;
  plan: NodePlan;
  custom: CustomPlan;
  config: Config;
  supervisor: Supervisor;
  records: Records;
};
const end = (kind: string, message = ""): NodeExit => ({ kind, message, tail: "", killed: false });

export async function runCustom(run: Run): Promise<NodeExit> {
  const { config, plan } = run;
  const work = jobsDir(config.data_dir).below(plan.handle.job, "work");
  try {
    if (nodeCount() > 1) return end("custom_setup", "A custom job runs on one node: ask for fewer GPUs");
    const support = await jailSupport(sessionJail(config.data_dir));
    if (!support.ok) return end("custom_setup", `The node cannot run custom jobs: ${support.reason}. ${support.fix}`);
    const cards = await cardsOf(plan.gpus);
    const before = await build(run, work);
    return await runCommand(run, { work, cards, before });
  } finally {
    await removeTree(work);
  }
}

async function cardsOf(count: number): Promise<Cards> {
  if (count === 0) return { uuids: [], nodes: [] };
  const uuids = shownGpus(await listGpus()).map(({ uuid }) => uuid);
  if (uuids.length < count) throw new Error(`this node shows ${uuids.length} GPUs, and the job needs ${count}`);
  const leased = uuids.slice(0, count);
  return { uuids: leased, nodes: gpuNodes(leased, readDriver()) };
}

async function build(run: Run, work: ForeignDir): Promise<Before> {
  const { root, plan, custom, config } = run;
  const owner = sessionOwner(config.data_dir);
  const inputs = join(root, jobDir(plan.handle.job), "inputs");
  await makeSandboxDir(work, owner);
  if (custom.code) await unpack(run, join(inputs, "code"), custom.code, workspaceOf(work));
  const before: Map<string, string>[] = [];
  for (const [i, { path, read_only }] of custom.volumes.entries()) {
    const below = path.slice(WORKSPACE.length);
    openStage(work, read_only ? i : below, owner).close();
    const into = read_only ? volumeOf(work, i) : workspaceOf(work).below(...below.split("/"));
    await unpack(run, join(inputs, `volume-${i}.tar`), "tar", into);
    before.push(read_only ? new Map() : await hashesOf(work, below));
  }
  if (custom.hasRows) {
    const stage = openStage(work, "", owner);
    const copy = async (temp: string) => {
      await writeTemp(temp, Bun.file(join(inputs, DATASET)).stream(), { meter: UNCOUNTED });
      return "copied" as const;
    };
    await stage.put(DATASET, 0o644, copy).finally(stage.close);
  }
  openStage(work, OUTPUT, owner).close();
  return before;
}

async function hashesOf(work: ForeignDir, below: string): Promise<Map<string, string>> {
  const collection = openCollection(work, below);
  try {
    const hashes = new Map<string, string>();
    for (const path of (await collection.scan()).files.keys()) hashes.set(path, await collection.sha256(path));
    return hashes;
  } finally {
    collection.close();
  }
}

type Command = { work: ForeignDir; cards: Cards; before: Before };

async function runCommand(run: Run, { work, cards, before }: Command): Promise<NodeExit> {
  const { dir, plan, custom, config, records, supervisor } = run;
  const send = (message: FromTrainer) => records.add({ message });
  const log = (stream: "stdout" | "stderr", text: string) => {
    for (const line of text.split("\n")) send({ type: "log", stream, line });
  };
  const device = plan.gpus === 0 ? describeMachine().cpuModel : plan.gpu_type;
  send({ type: "begun", step: 0, total_steps: 0, device, memory_bytes: custom.resources.memory_mib * MIB });
  const last: string[] = [];
  const limited = limitPoints((warning) => log("stderr", warning));
  const lines = linesOf(Object.values(custom.secrets), (stream, printed) => {
    for (const line of printed) send({ type: "log", stream, line });
    last.splice(0, last.length, ...[...last, ...printed.slice(-LAST_LINES)].slice(-LAST_LINES));
    for (const each of stream === "stdout" ? pointsOf(printed) : []) {
      const point = limited(each);
      if (point) send({ type: "step", ...point, eta_ms: null, samples: [], alarms: [] });
    }
  });
  const proxy = await openProxy(supervisor, custom, (line) => log("stderr", line));
  const stopping = new AbortController();
  const stop = () => stopping.abort();
  let isTimeUp = false;
  const timeIsUp = () => {
    isTimeUp = true;
    stop();
  };
  const unwatch = watchRequests(dir, { save: stop, stop, takeBack: stop, timeIsUp });
  try {
    const spec = customJail({
      job: { id: plan.handle.job, seed: custom.seed, command: custom.command },
      work,
      ...custom,
      resources: { ...custom.resources, cpus: cpusFor(custom) },
      readOnly: custom.volumes.flatMap(({ path, read_only }, index) => (read_only ? [{ index, path }] : [])),
      cards,
      proxy: proxy?.socket,
    });
    const onOutput = throttled(lines.push, stopping.signal);
    const jail = startJailed(sessionJail(config.data_dir), spec, { stdin: "ignore", onOutput });
    const kill = () => void jail.stop();
    stopping.signal.addEventListener("abort", kill, { once: true });
    if (stopping.signal.aborted) kill();
    const ended = await jail.ended;
    lines.end();
    await collectResults({ root: run.root, job: plan.handle.job, custom, work, before });
    if (stopping.signal.aborted && ended.reason === "stopped") {
      // The command starts again only if it got further than before: it has no checkpoints.
      if (isTimeUp) return end(TIME_LIMIT, "The time limit of the Slurm job came before the end of the command");
      send({ type: "saved" });
      return end("stopped");
    }
    if (ended.reason === "exited" && ended.exitCode === 0) {
      send({ type: "trained", stopped_early: null });
      return end("done");
    }
    const { code, message } = failureOf(ended, last.join("\n"));
    return end(Object.entries(CUSTOM_ENDS).find(([, failure]) => failure === code)?.[0] ?? "custom_crashed", message);
  } finally {
    unwatch();
    await proxy?.close();
  }
}

/** Slurm may give fewer processors than the node has. */
function cpusFor({ resources: { cpus } }: CustomPlan): number | null {
  const allotted = allottedCpus();
  return allotted === undefined ? cpus : Math.min(cpus ?? allotted, allotted);
}

async function openProxy(supervisor: Supervisor, { network }: CustomPlan, log: (line: string) => void) {
  if (network === null) return undefined;
  const listening = Promise.withResolvers<void>();
  const worker = supervisor.spawn<FromProxy, ToProxy>({
    kind: "proxy",
    incoming: FromProxy,
    onMessage(message) {
      if (message.type === "listening") listening.resolve();
      if (message.type === "refused") log(`No connection to ${message.host}: ${message.reason}`);
    },
    onExit: ({ message }) => listening.reject(new Error(`the network of the job could not be started: ${message}`)),
  });
  listening.promise.catch(() => {}); // it is awaited below
  const { max_bytes, connect_ms, ...policy } = network;
  worker.send({ type: "serve", network: policy, max_bytes, connect_ms });
  await listening.promise;
  return { socket: worker.socketPath, close: () => worker.stop("the command has ended") };
}
