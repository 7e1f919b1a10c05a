/**
 * `bun scripts/bench.ts [--quick] [name…]`: runs the named benchmarks (all by default) and prints one table. Needs
 * dist/verk and wrk. `--quick`: small sizes, to check that the benchmarks run.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Row } from "../bench/tools.ts";
import { buildShim } from "./bundle/shim.ts";

const dir = join(import.meta.dir, "../bench");
const known = readdirSync(dir)
  .filter((file) => file.endsWith(".ts") && !["tools.ts", "rows.ts"].includes(file))
  .map((file) => file.slice(0, -3))
  .sort();
const quick = process.argv.includes("--quick");
const selected = process.argv.slice(2).filter((name) => name !== "--quick");
const unknown = selected.find((name) => !known.includes(name));
if (unknown !== undefined) {
  console.error(`bench: there is no benchmark ${unknown}. Benchmarks: ${known.join(", ")}`);
  process.exit(2);
}

buildShim(join(dir, "..")); // code that runs from source loads it from .stage
const rows: Row[] = [];
for (const name of selected.length > 0 ? selected : known) {
  console.error(`bench: ${name} …`);
  const { run } = (await import(join(dir, `${name}.ts`))) as { run: (options: { quick: boolean }) => Promise<Row[]> };
  rows.push(...(await run({ quick })));
}
const mark = (ok: boolean | null) => (ok === null ? "" : ok ? "yes" : "NO");
console.log("| bench | what | measured | target | met |\n|---|---|---|---|---|");
for (const { bench, what, value, target, ok } of rows)
  console.log(`| ${bench} | ${what} | ${value} | ${target} | ${mark(ok)} |`);
process.exit(rows.some((row) => row.ok === false) ? 1 : 0);
