import { expect, test } from "bun:test";
import { join } from "node:path";
import { findHead, withHead, withOutput } from "./head.ts";

const MODELS = join(import.meta.dir, "../../../../models/detector");
const weightsOf = (name: string) => Bun.file(join(MODELS, `${name}.onnx`)).bytes();
const floats = (raw: Uint8Array) => new Float32Array(Uint8Array.from(raw).buffer);

test.each(["detector_v0", "detector_v1"])("the last layer of %s has 384 weights and a bias", async (name) => {
  const head = findHead(await weightsOf(name));
  expect(head && [head.features, floats(head.weight).length, floats(head.bias).length]).toEqual([
    "/Concat_1_output_0",
    384,
    1,
  ]);
});

test("the speech model ends in another way", async () => {
  expect(findHead(await weightsOf("detector_audio_v0"))).toBeUndefined();
});

test("a change touches the last layer and nothing else", async () => {
  const before = await weightsOf("detector_v1");
  const after = withHead(before, { weight: new Float32Array(384).fill(0.5), bias: -2 });
  const [old, changed] = [findHead(before)!, findHead(after)!];
  expect(floats(changed.weight)[7]).toBeCloseTo(floats(old.weight)[7]! + 0.5, 5);
  expect(floats(changed.bias)[0]).toBeCloseTo(floats(old.bias)[0]! - 2, 5);
  const differing = after.filter((byte, i) => byte !== before[i]).length;
  expect(after.length).toBe(before.length);
  expect(differing).toBeLessThanOrEqual(385 * 4);
});

test("a change of the wrong width, and a damaged file, are rejected", async () => {
  const onnx = await weightsOf("detector_v1");
  expect(() => withHead(onnx, { weight: new Float32Array(3), bias: 0 })).toThrow("The adaptation has 3 weights");
  expect(() => findHead(onnx.subarray(0, 100_000))).toThrow("damaged");
});

test("another output is appended to the file", async () => {
  const onnx = await weightsOf("detector_v0");
  const longer = withOutput(onnx, "x");
  expect([...longer.subarray(onnx.length)]).toEqual([58, 5, 98, 3, 10, 1, 120]);
});
