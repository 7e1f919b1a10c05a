/**
 * Broken files, from a seed, through the processes that read them, and some of them through a whole server.
 *
 *   bun scripts/fuzz/files.ts [--count N] [--seed N] [--minutes N] [--only gguf,archive,image,audio,rows] [--at INDEX]
 *
 * Prints a line for each finding, with what makes it again, and a report. Exits 1 when there is a finding: a process
 * that crashed, hung or answered what it must not, a 5xx of the server, or more memory than a reader may take.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { KINDS, type Kind, type Mutant, makers, SHARES } from "./file_mutants.ts";
import { serverTarget } from "./file_server.ts";
import { detectorTarget, inspectorTarget, type Outcome, rowsTarget, type Target } from "./file_targets.ts";

const { values } = parseArgs({
  options: {
    count: { type: "string", default: "100000" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    minutes: { type: "string", default: "120" },
    only: { type: "string", default: KINDS.join() },
    at: { type: "string" },
    keep: { type: "string" },
  },
});
const [count, seed, minutes] = [values.count, values.seed, values.minutes].map(Number) as [number, number, number];
const only = values.only.split(",").filter((name): name is Kind => (KINDS as readonly string[]).includes(name));

/** One in so many goes through the server as well. */
const THROUGH_SERVER = 53; // a prime, so that it meets every kind
/** For the pixels of the largest image, nine bytes each, and the libraries; others need far less. */
const MOST_BYTES: Readonly<Record<string, number>> = {
  detector: 1_500e6,
  inspector: 600e6,
  rows: 800e6,
  server: 1_000e6,
};

/** Kinds in proportion to their shares, the same at every index of the same run. */
function kindAt(index: number): Kind {
  const total = only.reduce((sum, kind) => sum + SHARES[kind], 0);
  let left = (index * 7_919) % total; // a prime: kinds take turns, and are not in blocks
  for (const kind of only) {
    left -= SHARES[kind];
    if (left < 0) return kind;
  }
  return only[0] as Kind;
}

type Tally = Record<Outcome["ended"], number>;
const tallies = new Map<string, Tally>();
const findings: string[] = [];

function record(target: string, index: number, mutant: Mutant, outcome: Outcome) {
  const key = `${target} ${mutant.kind}`;
  const tally = tallies.get(key) ?? { accepted: 0, refused: 0, crashed: 0, hung: 0, wrong: 0 };
  tally[outcome.ended]++;
  tallies.set(key, tally);
  if (outcome.ended === "accepted" || outcome.ended === "refused") return;
  const again = `bun scripts/fuzz/files.ts --seed ${seed} --only ${only.join()} --at ${index}`;
  findings.push(
    `${outcome.ended}: ${target}, ${mutant.kind} (${mutant.name})\n  again: ${again}\n  ${outcome.detail.trim()}`,
  );
  console.log(findings.at(-1));
  if (values.keep) writeFileSync(join(values.keep, `${seed}-${index}.${mutant.ending}`), mutant.bytes);
}

async function run() {
  const dir = mkdtempSync(join(tmpdir(), "verk-fuzz-"));
  const make = await makers();
  const inspector = inspectorTarget(join(dir, "inspector"));
  const targets: Record<Kind, Target> = {
    gguf: inspector,
    archive: inspector,
    rows: rowsTarget(),
    ...((detector) => ({ image: detector, audio: detector }))(detectorTarget(join(dir, "detector"))),
  };
  const server = await serverTarget();
  const end = performance.now() + minutes * 60_000;
  const [from, to] = values.at === undefined ? [0, count] : [Number(values.at), Number(values.at) + 1];
  let done = 0;
  console.log(`seed ${seed}: ${to - from} files of ${only.join(", ")}`);
  try {
    for (let index = from; index < to && performance.now() < end; index++, done++) {
      const kind = kindAt(index);
      const mutant = make[kind](seed + index);
      record(targets[kind].name, index, mutant, await targets[kind].take(mutant));
      if (values.at !== undefined || index % THROUGH_SERVER === 0)
        record("server", index, mutant, await server.take(mutant));
      if (done % 5_000 === 4_999) console.log(`${done + 1} done, ${findings.length} findings`);
    }
  } finally {
    for (const target of new Set([...Object.values(targets), server])) {
      await target.close();
      const [peak, most] = [target.peakBytes(), MOST_BYTES[target.name] ?? Number.POSITIVE_INFINITY];
      console.log(`${target.name.padEnd(10)} held ${Math.round(peak / 2 ** 20)} MiB at most`);
      if (peak > most) findings.push(`memory: ${target.name} held ${peak} bytes, more than ${most}`);
    }
    rmSync(dir, { recursive: true, force: true });
  }
  for (const [key, tally] of [...tallies].sort()) console.log(key.padEnd(20), JSON.stringify(tally));
  console.log(
    `seed ${seed}: ${done} files, ${findings.length} findings${done < to - from ? `, stopped after ${minutes} minutes` : ""}`,
  );
  return findings.length === 0 ? 0 : 1;
}

process.exit(await run());
