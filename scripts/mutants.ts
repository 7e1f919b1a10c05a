/**
 * Changes the product in small ways and looks whether a test notices.
 *
 *     bun scripts/mutants.ts [--count 200] [--seed N] [--file PATH] [--jobs 1] [--reach 300] [--list] [--continue]
 *
 * Mutants are drawn over src without src/dashboard (`mutants/choice.ts`). A mutant that the type checker refuses in its
 * own file is not taken. For each, the quick tests that import its file run, the nearest first, until one fails. A mutant
 * is killed by a test file that fails twice with it, or takes three times as long as usual and a minute, and passes
 * without it. It has survived when all have passed, or so many that they usually take `--reach` seconds.
 *
 * The work is done in copies of the checkout that have no executable. Tests of the executable run the source there
 * (`test/cli.ts`), mutant included, so no build is needed. Workers run from source as well.
 *
 * Results are appended to coverage/mutants_SEED.jsonl. `--seed N --continue` goes on with a run that was cut, also when
 * the code has changed since. The exit code is 1 if less than 85 % are killed.
 */
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { applied, changesOf, drawn, isProduct, type Mutant, relocated } from "./mutants/choice.ts";
import { openProgram, type Program } from "./mutants/program.ts";
import { copyTree, removeTree } from "./mutants/tree.ts";
import { ordered, Trials, type Verdict } from "./mutants/trial.ts";
import { affected, readGraph, testFiles, tierOf } from "./test_files.ts";
import { TIMINGS } from "./test_options.ts";

const LEAST_KILLED = 0.85;
const CLOSE_MS = 2_000;
const root = dirname(import.meta.dir);

/** `gone`: the code has changed since the mutant was drawn, and the change is no longer possible. */
type Result = Mutant & (Verdict | { state: "gone"; by: null }) & { seconds: number };

const { values: given } = parseArgs({
  options: {
    count: { type: "string", default: "200" },
    seed: { type: "string" },
    file: { type: "string" },
    jobs: { type: "string", default: "1" },
    reach: { type: "string", default: "300" },
    list: { type: "boolean", default: false },
    continue: { type: "boolean", default: false },
  },
});

function whole(name: "count" | "seed" | "jobs" | "reach", text: string): number {
  if (/^\d{1,10}$/.test(text)) return Number(text);
  console.error(`scripts/mutants: --${name} must be a whole number, not "${text}"`);
  process.exit(2);
}
const count = whole("count", given.count);
const jobs = whole("jobs", given.jobs);
const reachMs = whole("reach", given.reach) * 1_000;
const seed = given.seed === undefined ? (Date.now() % 1_000_000) + 1 : whole("seed", given.seed);
const RESULTS = join(root, `coverage/mutants_${seed}.jsonl`);
mkdirSync(dirname(RESULTS), { recursive: true });

const trees: string[] = [];
const trials: Trials[] = [];
let program: Program | undefined;
let isLeaving = false;
async function leave(code: number): Promise<never> {
  if (isLeaving) return await new Promise<never>(() => {}); // the first call ends the process
  isLeaving = true;
  for (const each of trials) each.end();
  await Promise.race([program?.close(), Bun.sleep(CLOSE_MS)]); // a compiler that ended before does not answer
  for (const tree of trees) removeTree(tree);
  process.exit(code);
}
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => void leave(130));

const treeFor = (job: number) => {
  const tree = copyTree(root, `${process.pid}_${job}`);
  trees.push(tree);
  return tree;
};

/** Draws mutants until so many have no type errors. */
async function choose(tree: string): Promise<Mutant[]> {
  program = await openProgram(tree);
  const all: Mutant[] = [];
  const files = [...new Bun.Glob("src/**/*.ts").scanSync(tree)].filter(isProduct).sort();
  const mine = files.filter((file) => given.file === undefined || file.includes(given.file));
  for (const file of mine) for (const change of changesOf(await program.parse(file))) all.push({ file, ...change });
  console.log(`${all.length} mutants in ${mine.length} files, seed ${seed}`);
  const chosen: Mutant[] = [];
  for (const mutant of drawn(all, seed)) {
    if (chosen.length === count) break;
    if (await isFair(tree, program, mutant)) chosen.push(mutant);
  }
  await program.close();
  program = undefined;
  return chosen;
}

async function isFair(tree: string, { isSound }: Program, mutant: Mutant): Promise<boolean> {
  const path = join(tree, mutant.file);
  const text = readFileSync(path, "utf8");
  writeFileSync(path, applied(text, mutant));
  try {
    return await isSound(mutant.file);
  } finally {
    writeFileSync(path, text);
    await isSound(mutant.file);
  }
}

const placeOf = ({ file, line, from, to }: Mutant) => `${file}:${line}  ${short(from)}  →  ${short(to)}`;
function short(text: string): string {
  const flat = text.replace(/\s+/g, " ");
  return flat.length > 90 ? `${flat.slice(0, 89)}…` : flat;
}
const isSame = (a: Mutant, b: Mutant) => a.file === b.file && a.at === b.at && a.from === b.from && a.to === b.to;

/** The first line of the file has the chosen mutants, the others one result each. */
function readResults(): { chosen: Mutant[]; results: Result[] } {
  if (!existsSync(RESULTS)) throw new Error(`${RESULTS} does not exist: there is no run with this seed`);
  const [first = "", ...lines] = readFileSync(RESULTS, "utf8").trim().split("\n");
  return { chosen: JSON.parse(first) as Mutant[], results: lines.map((line) => JSON.parse(line) as Result) };
}

async function find(tree: string, mutant: Mutant): Promise<Mutant | null> {
  const path = join(tree, mutant.file);
  if (!existsSync(path)) return null;
  return await relocated(mutant, readFileSync(path, "utf8"), async () => {
    program ??= await openProgram(tree);
    return changesOf(await program.parse(mutant.file));
  });
}

async function judge(chosen: readonly Mutant[], results: Result[]) {
  const graph = readGraph(root, { types: false }); // a mutant changes no types
  const timings = (JSON.parse(readFileSync(join(root, TIMINGS), "utf8")) as { files: Record<string, number> }).files;
  const quick = new Set(
    testFiles(root).filter((file) => tierOf(file, readFileSync(join(root, file), "utf8")) === "quick"),
  );
  const waiting = chosen.filter((mutant) => !results.some((result) => isSame(result, mutant)));
  const work = async (tree: string) => {
    const here = new Trials({ tree, timings, seed });
    trials.push(here);
    for (let mutant = waiting.shift(); mutant; mutant = waiting.shift()) {
      const near = new Map([...affected(graph, [mutant.file])].filter(([file]) => quick.has(file)));
      const begun = performance.now();
      const now = await find(tree, mutant);
      const verdict = now
        ? await here.of(now, ordered(mutant.file, near, timings, reachMs))
        : { state: "gone" as const, by: null };
      const result = { ...mutant, ...verdict, seconds: Math.round((performance.now() - begun) / 1_000) };
      results.push(result);
      appendFileSync(RESULTS, `${JSON.stringify(result)}\n`);
      const by = verdict.by === null ? "" : `  by ${verdict.by}`;
      console.log(
        `${results.length} of ${chosen.length}: ${verdict.state}  ${placeOf(mutant)}${by}  (${result.seconds} s)`,
      );
    }
  };
  await Promise.all(Array.from({ length: jobs }, (_, job) => work(trees[job] ?? treeFor(job))));
}

/** Returns whether enough are killed. */
function report(results: readonly Result[]): boolean {
  const of = (state: Result["state"]) => results.filter((result) => result.state === state);
  for (const state of ["survived", "uncovered"] as const) {
    if (of(state).length > 0) console.log(`\n${state}:`);
    for (const result of of(state)) console.log(`  ${placeOf(result)}`);
  }
  const share = of("killed").length / Math.max(1, results.length - of("gone").length);
  const counts = `${of("killed").length} killed, ${of("survived").length} survived, ${of("uncovered").length} not covered, ${of("gone").length} gone`;
  console.log(`\n${counts}: ${(100 * share).toFixed(1)} %, seed ${seed}`);
  return share >= LEAST_KILLED;
}

try {
  const { chosen, results } = given.continue ? readResults() : { chosen: await choose(treeFor(0)), results: [] };
  if (given.list) for (const mutant of chosen) console.log(placeOf(mutant));
  else {
    if (!given.continue) writeFileSync(RESULTS, `${JSON.stringify(chosen)}\n`);
    await judge(chosen, results);
  }
  await leave(given.list || report(results) ? 0 : 1);
} catch (error) {
  console.error(error);
  await leave(2);
}
