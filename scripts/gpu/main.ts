/**
 * Checks a build on a GPU, which CI does not have. `bun scripts/gpu/main.ts [--out DIR] [--cpu] [--quick] [part…]`;
 * `scripts/gpu/pack` packs everything into one folder for a bare machine. Every part is a separate process, so that a
 * crash in native code ends only its part. Prints a line for every finding and writes report.txt and report.json after
 * every part. An interrupted part leaves its findings as JSON Lines. Exits with 1 if a target is missed.
 */
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Row, remove, tempDir } from "../../bench/tools.ts";
import { type Part, setupIn } from "./setup.ts";

/** Checks run first, then benchmarks. */
const CHECKS: Record<string, () => Promise<Part>> = {
  gradients: async () => (await import("./gradients.ts")).rounded,
  merged: async () => (await import("./gradients.ts")).merged,
  families: async () => (await import("./families.ts")).families,
  repeated: async () => (await import("./gradients.ts")).repeated,
  sharing: async () => (await import("./sharing.ts")).sharing,
  exact: async () => (await import("./gradients.ts")).exact,
  learning: async () => (await import("./learning.ts")).learning,
  ranks: async () => (await import("./ranks.ts")).ranks,
  rolling: async () => (await import("./rolling.ts")).rolling,
  same_bits: async () => (await import("./same_bits.ts")).sameBits,
  memory: async () => (await import("./memory.ts")).memory,
  quantized: async () => (await import("./quantized.ts")).quantized,
  peft: async () => (await import("./peft.ts")).peft,
  transformers: async () => (await import("./transformers/check.ts")).transformers,
};
type Bench = { run: (options: { quick: boolean }) => Promise<Row[]> };
const BENCHES: Record<string, () => Promise<Bench>> = {
  training: () => import("../../bench/training.ts"),
  rollouts: () => import("../../bench/rollouts.ts"),
  grpo_step: () => import("../../bench/grpo_step.ts"),
  grpo_profile: () => import("../../bench/grpo_profile.ts"),
};
const KNOWN = [...Object.keys(CHECKS), ...Object.keys(BENCHES)];
/** Products in F32 are not rounded to TF32. */
const WITHOUT_TF32 = { NVIDIA_TF32_OVERRIDE: "0" };
const ENVIRONMENT: Record<string, Record<string, string>> = { exact: WITHOUT_TF32, families: WITHOUT_TF32 };

const has = (flag: string) => process.argv.includes(flag);
const after = (flag: string) => (has(flag) ? process.argv[process.argv.indexOf(flag) + 1] : undefined);
const quick = has("--quick");
const gpu = !has("--cpu") && Bun.which("nvidia-smi") !== null;

/** Runs in the child: writes findings as JSON Lines to a file. */
async function perform(name: string, into: string) {
  const write = (row: Row) => appendFileSync(into, `${JSON.stringify(row)}\n`);
  const check = CHECKS[name];
  if (check) {
    const dir = tempDir();
    const part = await check();
    for await (const row of part(setupIn(dir, gpu))) write({ bench: name, ...row });
    remove(dir);
  } else {
    const bench = await (BENCHES[name] as () => Promise<Bench>)();
    for (const row of await bench.run({ quick })) write(row);
  }
  process.exit(0); // native threads may still run
}

async function performed(name: string, dir: string): Promise<Row[]> {
  const into = join(dir, `${name}.jsonl`);
  writeFileSync(into, "");
  const flags = [...(quick ? ["--quick"] : []), ...(gpu ? [] : ["--cpu"])];
  const child = Bun.spawn([process.execPath, Bun.main, "--perform", name, "--into", into, ...flags], {
    env: { ...process.env, ...ENVIRONMENT[name] },
    stdout: "ignore",
    stderr: "pipe",
  });
  const complaints = await new Response(child.stderr).text();
  const code = await child.exited;
  const lines = (await Bun.file(into).text()).split("\n").filter((line) => line !== "");
  const rows = lines.map((line) => JSON.parse(line) as Row);
  rmSync(into);
  if (code === 0) return rows;
  const why = complaints.trim().split("\n").slice(-12).join("\n");
  const ended = child.signalCode ? `ended by ${child.signalCode}` : `exit ${code}`;
  return [...rows, { bench: name, what: "to its end", value: `${ended}: ${why}`, target: "exit 0", ok: false }];
}

const line = ({ bench, what, value, target, ok }: Row) =>
  [ok === null ? "     " : ok ? "ok   " : "FAILS", bench, what, value, target].join("  |  ");

async function main() {
  const flags = ["--out", after("--out"), "--cpu", "--quick"];
  const selected = process.argv.slice(2).filter((each) => !flags.includes(each));
  const unknown = selected.find((each) => !KNOWN.includes(each));
  if (unknown !== undefined) {
    console.error(`gpu: there is no part ${unknown}. Parts: ${KNOWN.join(", ")}`);
    process.exit(2);
  }
  const out = after("--out") ?? tempDir();
  mkdirSync(out, { recursive: true });
  const rows: Row[] = [];
  const seconds: Record<string, number> = {};
  const device = gpu
    ? Bun.spawnSync(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"])
    : null;
  const machine = device?.stdout.toString().trim() ?? "the processor alone";
  console.log(machine);
  for (const name of selected.length > 0 ? selected : KNOWN) {
    const begun = performance.now();
    const found = await performed(name, out);
    seconds[name] = Math.round((performance.now() - begun) / 100) / 10;
    rows.push(...found);
    for (const row of found) console.log(line(row));
    console.log(`       ${name}: ${seconds[name]} s`);
    writeFileSync(join(out, "report.json"), `${JSON.stringify({ machine, seconds, rows }, null, 2)}\n`);
    writeFileSync(join(out, "report.txt"), `${machine}\n${rows.map(line).join("\n")}\n`);
  }
  const missed = rows.filter(({ ok }) => ok === false).length;
  console.log(`${rows.filter(({ ok }) => ok).length} hold, ${missed} do not; ${join(out, "report.txt")}`);
  process.exit(missed > 0 ? 1 : 0);
}

const part = after("--perform");
await (part === undefined ? main() : perform(part, after("--into") as string));
