// tier: all (sweeps of faults)
import { expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe as shapeOf } from "../../src/lib/gguf/describe.ts";
import { estimateMemory } from "../../src/lib/gguf/memory.ts";
import { GgufError, parseGguf } from "../../src/lib/gguf/parse.ts";
import { ModelShape } from "../../src/workers/protocol.ts";
import { tempDir } from "../harness.ts";
import { SEED, seedFor, sweep } from "../sweep.ts";
import { MUTATORS, mutants, seeds } from "./gguf_mutants.ts";

const HEADERS = sweep({ quick: 1_500, full: 10_000 });
const FIRST = seedFor("broken headers");
const WORST_MS = 2_000; // of one header, in time of processors; a garbage collection may fall into it
const WORST_GROWTH_BYTES = 300 * 2 ** 20;

/** A shape that holds, or the refusal's words. Anything else is a defect and is thrown. */
function judge(bytes: Uint8Array): ModelShape | string {
  try {
    const header = parseGguf(bytes, bytes.byteLength);
    if ("need" in header) throw new Error("the whole file was given, and the parser wants more");
    const shape = ModelShape.parse(shapeOf(header));
    if (shape.weight_bytes > bytes.byteLength) throw new Error("more weights than file");
    const { total } = estimateMemory(shape, { contextLength: shape.context_length, parallel: 1 });
    if (!(total > 0 && total < Number.MAX_SAFE_INTEGER)) throw new Error(`estimates ${total} bytes`);
    return shape;
  } catch (error) {
    if (error instanceof GgufError) return error.message;
    throw error;
  }
}

test("the files from which the mutants are made are accepted", () => {
  for (const { bytes } of seeds()) expect(judge(bytes)).toBeObject();
});

test(`${HEADERS} broken headers: each is refused with a message or accepted with a valid shape (seed ${SEED})`, () => {
  const outcomes: Record<string, { accepted: number; refused: number }> = {};
  Bun.gc(true); // what other files of this process left behind does not count
  const before = process.memoryUsage.rss();
  let worstMs = 0;
  for (const { kind, bytes } of mutants(HEADERS, FIRST)) {
    const begun = process.cpuUsage();
    const verdict = judge(bytes);
    const { user, system } = process.cpuUsage(begun);
    worstMs = Math.max(worstMs, (user + system) / 1000);
    outcomes[kind] ??= { accepted: 0, refused: 0 };
    if (typeof verdict === "object") outcomes[kind].accepted++;
    else {
      outcomes[kind].refused++;
      expect(verdict.length).toBeGreaterThan(10);
      expect(verdict.length).toBeLessThan(500);
      expect(verdict).not.toMatch(/undefined|\[object/);
    }
  }
  expect(Object.keys(outcomes).sort()).toEqual(Object.keys(MUTATORS).sort());
  for (const [kind, { refused }] of Object.entries(outcomes)) expect([kind, refused > 0]).toEqual([kind, true]);
  expect(Object.values(outcomes).reduce((sum, { accepted }) => sum + accepted, 0)).toBeGreaterThan(100);
  expect(worstMs).toBeLessThan(WORST_MS);
  Bun.gc(true);
  expect(process.memoryUsage.rss() - before).toBeLessThan(WORST_GROWTH_BYTES);
}, 60_000);

test("a file cut off at any boundary of its header is refused", () => {
  for (const { bytes, boundaries } of seeds())
    for (const at of boundaries) {
      expect(judge(bytes.slice(0, at))).toBeString();
      expect(judge(bytes.slice(0, at - 1))).toBeString();
    }
});

type Loaded = { path: string; loaded: boolean; error?: string };

/** Loads every file in a child process. After a crash, a new child continues behind the file that caused it. */
async function loadAll(dir: string, paths: readonly string[]) {
  const outcomes: Loaded[] = [];
  const crashed: string[] = [];
  while (outcomes.length + crashed.length < paths.length) {
    const left = paths.slice(outcomes.length + crashed.length);
    const child = Bun.spawn([process.execPath, join(import.meta.dir, "../fixtures/load_gguf.ts"), dir], {
      stdin: new Blob([left.join("\n")]),
      stderr: "pipe",
    });
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    await child.exited;
    const done = out.split("\n").filter(Boolean);
    outcomes.push(...done.map((line) => JSON.parse(line) as Loaded));
    if (done.length < left.length) crashed.push(`${left[done.length]}: ${err.trim().split("\n")[0]}`);
  }
  return { outcomes, crashed };
}

test(`native code survives every file that the parser accepts: it decodes a token or reports an error (seed ${SEED})`, async () => {
  const dir = tempDir();
  const base = join(dir, "base.gguf");
  writeFileSync(base, seeds()[0]?.bytes ?? "");
  const paths = [base];
  for (const { kind, bytes } of mutants(HEADERS, FIRST + 1)) {
    const verdict = judge(bytes);
    if (typeof verdict === "string") continue;
    const path = join(dir, `${paths.length}-${kind}.gguf`);
    writeFileSync(path, bytes);
    paths.push(verdict.type === "adapter" ? `${base}\t${path}` : path);
    if (paths.length === 200) break;
  }
  const { outcomes, crashed } = await loadAll(dir, paths);
  rmSync(dir, { recursive: true, force: true });
  expect(crashed).toEqual([]);
  expect(outcomes[0]).toMatchObject({ loaded: true });
  expect(outcomes.filter((each) => each.loaded).length).toBeGreaterThan(100);
  for (const { loaded, error } of outcomes) if (!loaded) expect(error?.length).toBeGreaterThan(10);
}, 60_000);
