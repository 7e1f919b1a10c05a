/**
 * Rollouts by our own kernels and by the library against PyTorch, in the same run: 256 samples of 128 tokens after
 * prompts of 128, in groups of 8, drawn at temperature 1 from a model of the shape of Qwen2.5-0.5B. Prompts count in the
 * time, on all sides. Without a GPU a small model shows that it works. `bun bench/rollouts.ts` does the same without the
 * table of scripts/bench.ts; `--own` measures nothing but our own kernels in BF16.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { openRoller } from "../src/workers/trainer/rollouts/roller.ts";
import type { Roller, RolloutRequest } from "../src/workers/trainer/rollouts/types.ts";
import { HALF_BILLION, SMALL, writeRolloutModel } from "./peers/rollout_model.ts";
import { type Row, remove, tempDir } from "./tools.ts";

const GROUPS = 32;
const SAMPLES = 8;
const PROMPT = 128;
const NEW = 128;
const AIM = 100_000; // tok/s of our own kernels on an H200
const SAMPLING = { temperature: 1, topP: 1, topK: 0, minP: 0, maxTokens: NEW };
const SCRIPT = process.env["VERK_ROLLOUTS_PEER"] ?? join(import.meta.dir, "peers/rollouts_torch.py");

const hasGpu = () => Bun.which("nvidia-smi") !== null;

export async function run({ quick, own = false }: { quick: boolean; own?: boolean }): Promise<Row[]> {
  const dataDir = tempDir();
  const gpu = hasGpu();
  const rows: Row[] = [];
  const peer = gpu && !quick && !own ? await torch() : [];
  const best = Math.max(0, ...peer.map(({ rate }) => rate));
  for (const type of gpu && !own ? (["F16", "BF16"] as const) : ([own ? "BF16" : "F16"] as const)) {
    const modelPath = join(dataDir, `${type}.gguf`);
    await writeRolloutModel(modelPath, gpu ? HALF_BILLION : SMALL, type);
    for (const kernels of gpu ? (own ? [true] : [true, false]) : [false]) {
      const ours = await measure({ dataDir, modelPath, gpu, kernels, rounds: quick ? 4 : 5 });
      const by = kernels ? "own kernels" : "the library";
      const what = `${gpu ? "0.5B" : "small"} ${type} by ${by}, ${ours.samples} samples of ${NEW} tokens in groups of ${SAMPLES}: ${ours.detail}`;
      const aim = kernels ? Math.max(AIM, best) : best;
      const ok = aim === 0 ? null : ours.rate >= aim;
      rows.push({ bench: "rollouts", what, value: `${ours.rate} tok/s`, target: aim === 0 ? "" : `≥ ${aim}`, ok });
    }
  }
  for (const { what, rate } of peer)
    rows.push({ bench: "rollouts", what, value: `${rate} tok/s`, target: "", ok: null });
  remove(dataDir);
  return rows;
}

type Case = { dataDir: string; modelPath: string; gpu: boolean; kernels: boolean; rounds: number };

async function measure({ dataDir, modelPath, gpu, kernels, rounds }: Case) {
  const groups = gpu ? GROUPS : 2;
  const roller = await openRoller({
    dataDir,
    modelPath,
    threads: gpu ? 8 : 1,
    gpus: gpu ? [0] : [],
    kernels,
    contextLength: PROMPT + NEW,
    parallel: groups * SAMPLES,
  });
  await round(roller, groups, 0); // kernels are loaded when first used
  const all = [];
  for (let i = 0; i < rounds; i++) all.push(await round(roller, groups, 1 + i));
  const { memoryBytes } = roller.facts;
  await roller.close();
  const { ms, tokens } = all.sort((a, b) => a.ms / a.tokens - b.ms / b.tokens)[0]!;
  return {
    rate: Math.round((1000 * tokens) / ms),
    detail: `best of ${rounds}, ${ms.toFixed(0)} ms, ${Math.round(memoryBytes / 2 ** 20)} MiB`,
    samples: groups * SAMPLES,
  };
}

async function round(roller: Roller, groups: number, seed: number) {
  const requests = Array.from({ length: groups }, (_, g): RolloutRequest => {
    const prompt = Int32Array.from({ length: PROMPT }, (_, i) => 300 + ((seed * 7919 + g * 613 + i * 31) % 1700));
    return { prompt, samples: SAMPLES, seed: seed * 100 + g };
  });
  const startedAt = performance.now();
  const rolled = await roller.roll(requests, SAMPLING);
  const ms = performance.now() - startedAt;
  return { ms, tokens: rolled.flat().reduce((sum, { tokens }) => sum + tokens.length, 0) };
}

/** The reference prints a line of JSON for each way that it tried. */
async function torch(): Promise<{ what: string; rate: number }[]> {
  if (!existsSync(SCRIPT) || Bun.which("python3") === null) return [];
  const child = Bun.spawn(["python3", SCRIPT], { stdout: "pipe", stderr: "inherit" });
  const lines = (await new Response(child.stdout).text()).split("\n").filter((line) => line.startsWith("{"));
  return lines.map((line) => JSON.parse(line) as { what: string; rate: number });
}

if (import.meta.main) {
  const has = (flag: string) => process.argv.includes(flag);
  for (const { what, value, target } of await run({ quick: has("--quick"), own: has("--own") }))
    console.log(`${value}\t${target}\t${what}`);
}
