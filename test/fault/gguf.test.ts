import { expect, test } from "bun:test";
import { describe as shapeOf } from "../../src/lib/gguf/describe.ts";
import { estimateMemory } from "../../src/lib/gguf/memory.ts";
import { GgufError, parseGguf } from "../../src/lib/gguf/parse.ts";
import { ModelShape } from "../../src/workers/protocol.ts";
import { MUTATORS, mutants, seeds } from "./gguf_mutants.ts";

const HEADERS = 10_000;
const SEED = 20_260_101;
const WORST_MS = 250; // of one header; a garbage collection may fall into it
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

test("the files that the mutants are made of are accepted", () => {
  for (const { bytes } of seeds()) expect(judge(bytes)).toBeObject();
});

test("10,000 broken headers: each is refused with words or accepted with a shape that holds", () => {
  const outcomes: Record<string, { accepted: number; refused: number }> = {};
  const before = process.memoryUsage.rss();
  let worstMs = 0;
  for (const { kind, bytes } of mutants(HEADERS, SEED)) {
    const start = performance.now();
    const verdict = judge(bytes);
    worstMs = Math.max(worstMs, performance.now() - start);
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
  expect(process.memoryUsage.rss() - before).toBeLessThan(WORST_GROWTH_BYTES);
}, 60_000);

test("a file cut off at any boundary of its header is refused, whatever the boundary", () => {
  for (const { bytes, boundaries } of seeds())
    for (const at of boundaries) {
      expect(judge(bytes.slice(0, at))).toBeString();
      expect(judge(bytes.slice(0, at - 1))).toBeString();
    }
});
