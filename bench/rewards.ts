import type { Entrypoint, Language, Sample } from "../src/lib/rewards/contract.ts";
import { rewardSpawner } from "../src/sandbox/reward/jail.ts";
import { createRewardPool } from "../src/sandbox/reward/pool.ts";
import type { RewardProcess } from "../src/sandbox/reward/types.ts";
import { BINARY, median, type Row, remove, tempDir } from "./tools.ts";

/**
 * Reward code in the executable's sandbox, all layers that this host has: how long until the first result, and how
 * many batches of 64 completions of 1 KB a second once warm. Beside it the same Python under the host's own CPython,
 * in one process and without a sandbox.
 */
const ROUNDS = 7;
const BATCH = 64;
const WARM_MS = 2000; // until the runtime has compiled what is hot

const PYTHON_REGEX = `
import re
def reward(completions, answer, **kwargs):
    scores = []
    for completion, expected in zip(completions, answer):
        found = re.search(r"<answer>\\s*(-?[\\d,.]+)\\s*</answer>", completion)
        shape = 0.2 if re.search(r"<think>.*?</think>", completion, re.S) else 0.0
        scores.append(shape + (1.0 if found and found.group(1).replace(",", "") == expected else 0.0))
    return scores
`;
const PYTHON_JSON = `
import json
def reward(completions, **kwargs):
    scores = []
    for completion in completions:
        try:
            value = json.loads(completion[completion.index("{"):])
            scores.append(0.5 + 0.5 * (set(value) == {"name", "value"}))
        except ValueError:
            scores.append(0.0)
    return scores
`;
const JAVASCRIPT_REGEX = `
export function reward({ completions, answer }: { completions: string[]; answer: string[] }): number[] {
  return completions.map((completion, i) => {
    const found = /<answer>\\s*(-?[\\d,.]+)\\s*<\\/answer>/.exec(completion);
    const shape = /<think>[\\s\\S]*?<\\/think>/.test(completion) ? 0.2 : 0;
    return shape + (found && found[1].replace(/,/g, "") === answer[i] ? 1 : 0);
  });
}
`;

const thought = "Let us go step by step: 12 times 7 is 84, and with 16 more it is 100. ".repeat(13);
const samples: Sample[] = Array.from({ length: BATCH }, (_, n) => ({
  prompt: `What is 12 * 7 + 16? (${n})`,
  completion: `<think>${thought}</think>\n<answer> ${n % 3 === 0 ? 99 : 100} </answer> {"name": "x", "value": ${n}}`,
  row: { answer: "100" },
}));

type Case = { what: string; language: Language; source: string; least: number };
const CASES: Case[] = [
  { what: "Python, regex", language: "python", source: PYTHON_REGEX, least: 60 },
  { what: "Python, JSON", language: "python", source: PYTHON_JSON, least: 250 },
  { what: "TypeScript, regex", language: "typescript", source: JAVASCRIPT_REGEX, least: 45 },
];
const MOST_MS = { python: 1500, typescript: 150 } as const;

export async function run({ quick }: { quick: boolean }): Promise<Row[]> {
  const dir = tempDir();
  const settings = { require: "process", memory_mib: 512, spare_seconds: 0 } as const;
  const pool = createRewardPool({ settings, dataDir: dir, spawn: rewardSpawner(dir, BINARY).spawn });
  const rows: Row[] = [];
  try {
    for (const each of CASES) {
      if (each.language in MOST_MS && !rows.some(({ what }) => what.startsWith(`${each.language}: `))) {
        rows.push(await firstResult(each, quick ? 2 : ROUNDS));
      }
      rows.push(await throughput(each, quick ? 500 : 3000));
    }
  } finally {
    await pool.close();
    remove(dir);
  }
  return rows;

  async function opened({ language, source }: Case): Promise<{ process: RewardProcess; entry: Entrypoint }> {
    const process = await pool.take(language);
    const loaded = await process.load({ language, source, params: {}, seed: 1 }, 10_000);
    const [entry] = loaded.ok ? loaded.entrypoints : [];
    if (!entry) throw new Error(`the benchmark's own code was rejected: ${JSON.stringify(loaded)}`);
    return { process, entry };
  }

  async function firstResult(each: Case, rounds: number): Promise<Row> {
    const times: number[] = [];
    let layers: readonly string[] = [];
    for (let round = 0; round < rounds; round++) {
      const began = performance.now();
      const { process, entry } = await opened(each);
      await score(process, entry);
      times.push(performance.now() - began);
      layers = process.layers;
      await process.close();
    }
    const most = MOST_MS[each.language as keyof typeof MOST_MS];
    const value = median(times);
    return {
      bench: "rewards",
      what: `${each.language}: start to first result (${layers.join(", ")})`,
      value: `${value.toFixed(0)} ms`,
      target: `≤ ${most} ms`,
      ok: value <= most,
      figure: { name: `${each.language}: start to first reward`, value, unit: "ms" },
    };
  }

  async function throughput(each: Case, forMs: number): Promise<Row> {
    const { process, entry } = await opened(each);
    await rate(() => score(process, entry), WARM_MS);
    const own = await rate(() => score(process, entry), forMs);
    await process.close();
    const host = each.language === "python" ? await cpython(each.source, forMs) : undefined;
    const beside =
      host === undefined ? "" : `; host CPython without a sandbox ${host.toFixed(0)}, ${(own / host).toFixed(2)}×`;
    return {
      bench: "rewards",
      what: `${each.what}: batches of ${BATCH} × 1 KB`,
      value: `${own.toFixed(0)}/s${beside}`,
      target: `≥ ${each.least}/s`,
      ok: own >= each.least,
      figure: { name: `rewards, ${each.what}`, value: own, unit: "/s" },
    };
  }
}

async function score(process: RewardProcess, entry: Entrypoint) {
  const limits = { sampleMs: 5000, wholeMs: 10_000, until: performance.now() + 20_000 };
  const { outcomes, end } = await process.call(entry, samples, limits);
  if (end || outcomes.some(({ value }) => value === null)) throw new Error(`a batch failed: ${JSON.stringify(end)}`);
}

async function rate(once: () => Promise<void>, forMs: number): Promise<number> {
  const began = performance.now();
  let count = 0;
  for (; performance.now() - began < forMs; count++) await once();
  return (count * 1000) / (performance.now() - began);
}

/** Undefined where there is no python3. */
async function cpython(source: string, forMs: number): Promise<number | undefined> {
  const python = Bun.which("python3");
  if (!python) return undefined;
  const program = `${source}
import json, sys, time
given = json.load(sys.stdin)
def run(seconds):
    began = time.perf_counter()
    count = 0
    while time.perf_counter() - began < seconds:
        reward(**given)
        count += 1
    return count / (time.perf_counter() - began)
run(${forMs / 3000})
print(run(${forMs / 1000}))
`;
  const given = {
    completions: samples.map(({ completion }) => completion),
    answer: samples.map(({ row }) => row["answer"]),
  };
  const child = Bun.spawn([python, "-c", program], { stdin: Buffer.from(JSON.stringify(given)), stdout: "pipe" });
  return Number(await new Response(child.stdout).text());
}
