import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { describeProjector } from "../../src/lib/vision/projector.ts";
import { type Backend, openBackend } from "../../src/native/ggml/ggml.ts";
import { headerOf } from "../../src/workers/decoder/header.ts";
import { openEncoder } from "../../src/workers/serving/vision/encoder.ts";
import { patchesOf } from "../../src/workers/serving/vision/squares.ts";
import { tempDir } from "../harness.ts";
import { referenceRows } from "../projector_reference.ts";
import { makePicture, makeProjector, type ProjectorOptions } from "../projectors.ts";

const dir = tempDir();
let backend: Backend;
beforeAll(() => {
  backend = openBackend(dir, { kind: "cpu", threads: 2 });
});
afterAll(() => backend.close());

const CASES: [string, ProjectorOptions][] = [
  ["LLaVA with a class token", { kind: "mlp", outputs: 48, hasClass: true }],
  ["LLaVA without one", { kind: "mlp", outputs: 48, type: "F16" }],
  ["an older file with swapped names", { kind: "mlp", outputs: 48, isSwapped: true }],
  ["Idefics 3", { kind: "idefics3", outputs: 40, merge: 2 }],
  ["Gemma 3", { kind: "gemma3", outputs: 64, merge: 2, heads: 4 }],
];

describe("the encoder gives the rows of its definition", () => {
  test.each(CASES)("%s", (_, options) => {
    const path = makeProjector(dir, options);
    const header = headerOf(path);
    const of = describeProjector(header);
    const encoder = openEncoder(backend, path, header, of);
    const patches = patchesOf(makePicture(of.imageSize, of.imageSize), of);
    const rows = encoder.encode(patches);
    encoder.free();
    const wanted = referenceRows(options, patches).flatMap((row) => [...row]);
    expect(rows).toHaveLength(of.rows * of.outputs);
    expect(Math.max(...wanted.map((value, i) => Math.abs(value - rows[i]!)))).toBeLessThan(0.01);
    expect(Math.max(...wanted.map(Math.abs))).toBeGreaterThan(0.5);
  });
});
