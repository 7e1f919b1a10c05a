/**
 * One training on two nodes against one node with the same batch. The second node is a network namespace behind a cable,
 * and each node has one thread. Needs root and `ip`. A script in the place of `srun` starts the second node's side.
 */
import { randomBytes } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newId } from "../src/lib/ids.ts";
import { makeModel } from "../test/models.ts";
import { layCable } from "../test/servers/netns.ts";
import { planOf } from "../test/trainer_kit.ts";
import { BINARY, median, type Row, remove, tempDir } from "./tools.ts";

const STEPS = 8;
const words = (i: number) => Array.from({ length: 60 }, (_, n) => (i * 7 + n) % 97).join(" ");
const ROWS = Array.from({ length: 64 }, (_, i) => ({ prompt: `${i}: `, completion: words(i) }));

export async function run({ quick }: { quick: boolean }): Promise<Row[]> {
  const what = "two nodes against one";
  if (process.getuid?.() !== 0 || Bun.which("ip") === null)
    return [{ bench: "nodes", what, value: "needs root and ip", target: "", ok: null }];
  const dir = tempDir();
  using cable = layCable();
  const bin = join(dir, "bin");
  mkdirSync(bin);
  const script = `#!/bin/sh\nwhile [ "\${1#--}" != "$1" ]; do shift; done\nexec ${cable.prefix.join(" ")} env SLURM_PROCID=0 "$@"\n`;
  writeFileSync(join(bin, "srun"), script, { mode: 0o755 });
  const rows: Row[] = [];
  for (const lora of quick ? [{ r: 8, alpha: 16 }] : [{ r: 8, alpha: 16 }, null]) {
    const one = await measure(dir, { lora, nodes: 1, bin, steps: quick ? 3 : STEPS });
    const two = await measure(dir, { lora, nodes: 2, bin, steps: quick ? 3 : STEPS });
    const scaling = one.stepMs / two.stepMs;
    rows.push({
      bench: "nodes",
      what: `${what}, ${lora ? "an adapter" : "all weights"}`,
      value: `${one.stepMs.toFixed(0)} and ${two.stepMs.toFixed(0)} ms a step: ${scaling.toFixed(2)}×`,
      target: "the same losses",
      ok: one.losses === two.losses,
    });
  }
  remove(dir);
  return rows;
}

type Run = { lora: { r: number; alpha: number } | null; nodes: number; bin: string; steps: number };

async function measure(dir: string, { lora, nodes, bin, steps }: Run) {
  const root = join(dir, "node");
  const model = makeModel(dir, { arch: "llama", type: "F32", width: 256, ff: 1024, context: 512 });
  const given = { max_steps: steps, per_device_train_batch_size: 16, learning_rate: 1e-3 };
  const plan = await planOf({ dir, model, lora, context: 512, method: "sft", rows: ROWS, given });
  const handle = { job: newId("job"), attempt: 1 };
  const inputs = `jobs/${handle.job}/inputs`;
  const attempt = join(root, `jobs/${handle.job}/1`);
  for (const path of [join(root, "models"), join(root, inputs), attempt]) mkdirSync(path, { recursive: true });
  copyFileSync(model, join(root, "models/bench.gguf"));
  copyFileSync(plan.rows.path, join(root, inputs, "rows.db"));
  const task = {
    type: "train",
    save_steps: 0,
    save_seconds: 0,
    warm_start: null,
    resume: null,
    samples_per_step: 0,
    ranks: nodes,
    rank: 0,
    checkpoint_dir: `jobs/${handle.job}/checkpoints`,
    plan: { ...plan, model_path: "models/bench.gguf", rows: { ...plan.rows, path: `${inputs}/rows.db` } },
  };
  const limits = { sampleMs: 10_000, batchMs: 60_000 };
  const about = { handle, task, gpus: 0, gpu_type: "cpu", rewards: null, limits, settings: {} };
  writeFileSync(join(attempt, "plan.json"), JSON.stringify({ ...about, secret: randomBytes(32).toString("hex") }));
  const env = {
    HOME: root,
    PATH: `${bin}:${process.env["PATH"]}`,
    SLURM_JOB_NUM_NODES: String(nodes),
    SLURM_CPUS_PER_TASK: "2", // one thread computes
  };
  const child = Bun.spawn([BINARY, "node", "run", root, JSON.stringify(handle)], { env, stdout: "ignore" });
  await child.exited;
  const lines = readFileSync(join(attempt, "records.ndjson"), "utf8").trim().split("\n");
  const records = lines.map((line) => JSON.parse(line) as Line);
  const done = records.flatMap(({ time, message }) =>
    message?.type === "step" ? [{ time, loss: message.values["loss"] }] : [],
  );
  if (done.length < steps) throw new Error(`the run ended early: ${lines.at(-1)}`);
  const times = done.slice(1).map(({ time }, i) => time - done[i]!.time);
  return { stepMs: median(times), losses: JSON.stringify(done.map(({ loss }) => loss)) };
}

type Line = { time: number; message?: { type: string; values: Record<string, number> } };

if (import.meta.main) for (const row of await run({ quick: process.argv.includes("--quick") })) console.log(row);
