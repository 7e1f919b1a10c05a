/**
 * A run on several nodes. The supervisor of rank 0 is the batch job. It starts a supervisor on each other node with
 * `srun`, which starts the trainers of its node. All trainers are joined to that of rank 0.
 */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import { withWorkers } from "../../app.ts";
import { later } from "../../lib/schema.ts";
import { SECOND_MS } from "../../lib/units.ts";
import { ambientEnv, loadConfig } from "../../platform/config/config.ts";
import { writeFileAtomicSync } from "../../platform/files.ts";
import { attemptDir, type Handle, NodeExit, NodePlan } from "../../platform/providers/protocol.ts";
import { srunArgs } from "../../platform/providers/slurm_text.ts";
import { self } from "../../platform/workers/self.ts";
import type { Supervisor } from "../../platform/workers/supervisor.ts";
import { isRankGone, type TrainTask } from "../../workers/protocol_trainer.ts";
import { openHub } from "./rank_hub.ts";
import { exitPath, runRanks } from "./rank_workers.ts";
import { cpusPerTask, launchAddress, stepIndex } from "./scheduler.ts";
import { taskOf } from "./tasks.ts";

/** `ranks.json` of the attempt: the address of rank 0. All ranks resume from the checkpoint that rank 0 chose. */
const Meeting = later(() =>
  z.strictObject({
    port: z.int(),
    addresses: z.array(z.string()),
    nodes: z.int().min(2),
    resume: z.string().nullable(),
  }),
);

type Start = { root: string; dir: string; handle: Handle; plan: NodePlan; task: TrainTask; nodes: number };

export type Others = {
  attach: (socketPath: string) => void;
  /** Resolves with the reason if they end before all have joined. */
  broken: Promise<string>;
  /** Waits for their end. Returns the end of the run: the cause, if it lies in another rank than the first. */
  settle: (exit: NodeExit) => Promise<NodeExit>;
};

const END_MS = 20 * SECOND_MS;

export async function startOthers(
  supervisor: Supervisor,
  { root, dir, handle, plan, task, nodes }: Start,
): Promise<Others> {
  const count = task.ranks;
  const here = count / nodes;
  const hub = await openHub({ secret: secretOf(plan), count });
  for (let rank = 1; rank < count; rank++) rmSync(exitPath(dir, rank), { force: true }); // of an earlier start
  const { port, addresses } = hub;
  writeFileAtomicSync(join(dir, "ranks.json"), JSON.stringify({ port, addresses, nodes, resume: task.resume }));
  const step = Bun.spawn([...srunArgs(nodes, cpusPerTask()), ...self("node", "rank", root, JSON.stringify(handle))], {
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
    env: ambientEnv() as Record<string, string>,
  });
  const said = new Response(step.stderr).text();
  const near = runRanks({
    supervisor,
    dir,
    task,
    from: 1,
    indices: Array.from({ length: here - 1 }, (_, i) => i + 1),
    first: { addresses: ["127.0.0.1"], port, secret: secretOf(plan) },
  });
  const lastWords = async () => (await said).trim().split("\n").at(-1) || `srun ended with code ${step.exitCode}`;
  const broken = Promise.withResolvers<string>();
  let isJoined = false;
  let isBroken = false;
  hub.joined.then(() => {
    isJoined = true;
  });
  void step.exited.then(async () => {
    if (isJoined) return;
    isBroken = true;
    broken.resolve(await lastWords());
  });
  return {
    attach: hub.attach,
    broken: broken.promise,
    async settle(exit) {
      hub.close();
      const late = setTimeout(() => step.kill("SIGKILL"), END_MS);
      await Promise.all([step.exited, near]);
      clearTimeout(late);
      if (!isBroken && !isRankGone(exit.message)) return exit;
      const cause = causeIn(dir, count);
      if (cause) return cause;
      return {
        ...exit,
        kind: "crashed",
        message: `The other nodes of the run ended: ${await lastWords()}`,
        killed: true,
      };
    },
  };
}

function secretOf({ secret }: NodePlan): string {
  if (secret === undefined) throw new Error("the plan has no secret for its ranks");
  return secret;
}

/** The first rank whose end is not the loss of another one. */
function causeIn(dir: string, count: number): NodeExit | undefined {
  for (let rank = 1; rank < count; rank++) {
    const path = exitPath(dir, rank);
    if (!existsSync(path)) continue;
    const exit = NodeExit.parse(JSON.parse(readFileSync(path, "utf8")));
    if (exit.kind !== "done" && exit.kind !== "stopped" && !isRankGone(exit.message))
      return { ...exit, message: `Rank ${rank}: ${exit.message}` };
  }
  return undefined;
}

/** `verk node rank`: the supervisor of the ranks of another node than the first. It ends with its trainers. */
export async function superviseRanks(rootPath: string, handle: Handle): Promise<undefined> {
  for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, () => {}); // rank 0 decides
  const root = resolve(rootPath);
  const dir = join(root, attemptDir(handle));
  const read = (name: string) => JSON.parse(readFileSync(join(dir, name), "utf8")) as unknown;
  const plan = NodePlan.parse(read("plan.json"));
  const { port, addresses, nodes, resume } = Meeting.parse(read("ranks.json"));
  const config = loadConfig({ env: { HOME: root }, flags: { ...plan.settings, data_dir: join(root, "data") } });
  const task = { ...(await taskOf(root, plan, config, nodes)), resume };
  const here = task.ranks / nodes;
  const indices = Array.from({ length: here }, (_, i) => (stepIndex() + 1) * here + i);
  const first = { port, addresses: [...launchAddress(), ...addresses], secret: secretOf(plan) };
  await withWorkers(config, (supervisor) => runRanks({ supervisor, dir, task, indices, from: 0, first }));
  return undefined;
}
