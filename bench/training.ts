/**
 * Steps of an adapter against PyTorch in the same run: rank 16 on all seven matrices of a BF16 model, rows of 1024
 * tokens, AdamW. First that every gradient is the CPU's. Needs an NVIDIA GPU and the kernels of scripts/build_kernels
 * beside the libraries; `bun bench/training.ts` does the same without the table of scripts/bench.ts, also bundled and
 * carried elsewhere.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Row, remove, tempDir } from "./tools.ts";
import { agreements, type Run, timeSteps } from "./training/passes.ts";

const SCRIPT = process.env["VERK_TRAINING_PEER"] ?? join(import.meta.dir, "training/reference.py");
const RUNS: (Run & { judged?: true })[] = [
  { shape: "1B", rows: 8, checkpoints: false, judged: true },
  { shape: "1B", rows: 8, checkpoints: true },
  { shape: "1B", rows: 32, checkpoints: true },
  { shape: "0.5B", rows: 8, checkpoints: false },
  { shape: "8B", rows: 4, checkpoints: false, judged: true },
];

export async function run({ quick }: { quick: boolean }): Promise<Row[]> {
  if (Bun.which("nvidia-smi") === null)
    return [{ bench: "training", what: "steps of an adapter", value: "no GPU here", target: "", ok: null }];
  const dir = tempDir();
  const rows: Row[] = [];
  for (const { what, kernels, logps, cosine, at } of agreements(dir)) {
    const by = kernels ? "our kernels" : "ggml alone";
    const value = `cosine ${cosine.toFixed(5)} (${at}), scores ${logps.toExponential(1)} apart`;
    const ok = kernels ? cosine >= 0.999 : null;
    rows.push({ bench: "training", what: `GPU against CPU, ${by}: ${what}`, value, target: "≥ 0.999", ok });
  }
  for (const each of quick ? RUNS.slice(0, 1) : RUNS) rows.push(...(await against(dir, each)));
  remove(dir);
  return rows;
}

async function against(dir: string, each: (typeof RUNS)[number]): Promise<Row[]> {
  const ours = timeSteps(dir, each);
  const peer = each.judged ? await torch(each) : null;
  const what = `${each.shape}, ${each.rows} × 1024${each.checkpoints ? ", layers computed again" : ""}`;
  const parts = `${ours.forward.toFixed(1)} + ${ours.backward.toFixed(1)} + ${ours.update.toFixed(1)} ms`;
  const speed = `${ours.tokensPerSecond} tok/s (${parts})`;
  const memory = `${ours.usedMib} MiB in use`;
  if (!peer)
    return [
      { bench: "training", what, value: `${speed}, ${memory}`, target: each.judged ? "no PyTorch" : "", ok: null },
    ];
  const ratio = ours.tokensPerSecond / peer.tokens_s;
  const share = ours.usedMib / peer.used_mib;
  const theirs = `torch.compile ${peer.tokens_s} tok/s`;
  return [
    { bench: "training", what, value: `${speed}: ${ratio.toFixed(2)}×`, target: `≥ 0.6× ${theirs}`, ok: ratio >= 0.6 },
    {
      bench: "training",
      what,
      value: `${memory}: ${share.toFixed(2)}×`,
      target: `≤ 2× ${peer.used_mib} MiB`,
      ok: share <= 2,
    },
  ];
}

type Peer = { tokens_s: number; used_mib: number };

async function torch({ shape, rows, checkpoints }: Run): Promise<Peer | null> {
  if (!existsSync(SCRIPT)) return null;
  const flags = ["compile", ...(checkpoints ? ["checkpoint"] : [])];
  const child = Bun.spawn(["python3", SCRIPT, shape, String(rows), ...flags], { stderr: "ignore" });
  const line = (await new Response(child.stdout).text()).trim().split("\n").at(-1) ?? "";
  return (await child.exited) === 0 ? (JSON.parse(line) as Peer) : null;
}

if (import.meta.main)
  for (const { what, value, target, ok } of await run({ quick: process.argv.includes("--quick") }))
    console.log([what, value, target, ok === null ? "" : ok ? "yes" : "NO"].join(" | "));
