/**
 * `bun scripts/bench.ts [--quick] [name…]`: runs the named benchmarks (all by default) and prints one table. Needs
 * dist/verk. `--quick`: small sizes, to check that the benchmarks run.
 * `bun scripts/bench.ts compare [--keep] [name…]`: runs the short ones, and prints what moved since the last version
 * (bench/figures.json); `--keep` writes the new figures there.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Row } from "../bench/tools.ts";
import { compare, type Measured, measureSpeed } from "./bench_figures.ts";
import { buildShim } from "./bundle/shim.ts";

const dir = join(import.meta.dir, "../bench");
const known = readdirSync(dir)
  .filter((file) => file.endsWith(".ts") && !["tools.ts", "rows.ts"].includes(file))
  .map((file) => file.slice(0, -3))
  .sort();
const SHORT = ["start", "write", "read", "webhooks", "serving", "detect", "rewards", "metrics"];
const isComparison = process.argv[2] === "compare";
const quick = isComparison || process.argv.includes("--quick");
const keep = process.argv.includes("--keep");
const selected = process.argv.slice(isComparison ? 3 : 2).filter((name) => name !== "--quick" && name !== "--keep");
const unknown = selected.find((name) => !known.includes(name));
if (unknown !== undefined) {
  console.error(`bench: there is no benchmark ${unknown}. Benchmarks: ${known.join(", ")}`);
  process.exit(2);
}

buildShim(join(dir, "..")); // code that runs from source loads it from .stage
const rows: Row[] = [];
const measured: Measured[] = [];
let speed = isComparison ? measureSpeed() : 1;
const byDefault = isComparison ? SHORT : known;
for (const name of selected.length > 0 ? selected : byDefault) {
  console.error(`bench: ${name} …`);
  const { run } = (await import(join(dir, `${name}.ts`))) as { run: (options: { quick: boolean }) => Promise<Row[]> };
  const before = speed;
  const ofBench = await run({ quick });
  rows.push(...ofBench);
  if (!isComparison) continue;
  speed = measureSpeed(); // other programs may come and go within ten minutes
  for (const { figure } of ofBench) if (figure) measured.push({ ...figure, speed: (before + speed) / 2 });
}
if (isComparison) {
  console.log(await compare(measured, { keep }));
  process.exit(0);
}
const mark = (ok: boolean | null) => (ok === null ? "" : ok ? "yes" : "NO");
console.log("| bench | what | measured | target | met |\n|---|---|---|---|---|");
for (const { bench, what, value, target, ok } of rows)
  console.log(`| ${bench} | ${what} | ${value} | ${target} | ${mark(ok)} |`);
process.exit(rows.some((row) => row.ok === false) ? 1 : 0);
