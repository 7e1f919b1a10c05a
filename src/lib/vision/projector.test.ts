import { afterAll, describe, expect, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { bool, f32s, type GgufValue, i32s, u32 } from "../../../test/gguf_writer.ts";
import { tempDir } from "../../../test/harness.ts";
import { makeModel } from "../../../test/models.ts";
import { makeProjector, type ProjectorOptions } from "../../../test/projectors.ts";
import { randomFor, sweep } from "../../../test/sweep.ts";
import { GgufError, type Header, parseGguf } from "../gguf/parse.ts";
import { describeProjector } from "./projector.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true }));

function headerOf(bytes: Uint8Array): Header {
  const parsed = parseGguf(bytes, bytes.length);
  if ("need" in parsed) throw new GgufError("incomplete");
  return parsed;
}
const described = (path: string) => describeProjector(headerOf(readFileSync(path)));

test("the facts of a projector", () => {
  const path = makeProjector(dir, { kind: "idefics3", outputs: 40, merge: 2, longestEdge: 96 });
  expect(described(path)).toMatchObject({
    kind: "idefics3",
    imageSize: 32,
    patchSize: 8,
    width: 32,
    heads: 2,
    layers: 3,
    activation: "gelu",
    merge: 2,
    rows: 4,
    outputs: 40,
    longestEdge: 96,
    hasClass: false,
    isSwapped: false,
  });
  const llava = described(makeProjector(dir, { kind: "mlp", outputs: 48, hasClass: true }));
  expect(llava).toMatchObject({ layers: 2, rows: 16, merge: 1, hasClass: true, activation: "gelu_quick" });
});

describe("a projector that cannot be used is refused in one sentence", () => {
  const vision = (key: string, value: GgufValue) => ({ metadata: { [`clip.vision.${key}`]: value } });
  const mlp: ProjectorOptions = { kind: "mlp", outputs: 48 };
  test.each<[string, ProjectorOptions]>([
    ['The projector "qwen2vl_merger" is not supported', { ...mlp, kind: "qwen2vl_merger" }],
    ["image_grid_pinpoints (LLaVA 1.6) is not supported", { ...mlp, ...vision("image_grid_pinpoints", i32s([1, 2])) }],
    ["reads no images", { ...mlp, metadata: { "clip.has_vision_encoder": bool(false) } }],
    ['Tensor "v.blk.3.ln1.weight" is missing', { ...mlp, ...vision("block_count", u32(5)) }],
    ["does not fit patches of 8", { ...mlp, ...vision("image_size", u32(33)) }],
    ["which 5 heads cannot share", { ...mlp, ...vision("attention.head_count", u32(5)) }],
    ['Tensor "v.patch_embd.weight" is', { ...mlp, ...vision("patch_size", u32(4)) }],
    ["image_std has a zero", { ...mlp, ...vision("image_std", f32s([1, 0, 1])) }],
    ["image_mean must have three numbers", { ...mlp, ...vision("image_mean", f32s([1])) }],
    [
      "the maximum for gemma3 is 512",
      { kind: "gemma3", outputs: 48, imageSize: 192, merge: 1, ...vision("projector.scale_factor", u32(1)) },
    ],
  ])("%s", (wanted, options) => {
    const path = makeProjector(dir, options);
    expect(() => described(path)).toThrow(GgufError);
    expect(() => described(path)).toThrow(wanted);
  });

  test("a language model is no projector", () => {
    expect(() => described(makeModel(dir, { arch: "llama", type: "F32" }))).toThrow("is not a projector for images");
  });
});

test("a header with random damage is described or refused, and nothing else happens", () => {
  const random = randomFor("broken projectors");
  const whole = readFileSync(makeProjector(dir, { kind: "gemma3", outputs: 64, imageSize: 16, layers: 1 }));
  const { dataStart } = headerOf(whole);
  for (let i = 0; i < sweep({ quick: 500, full: 5_000 }); i++) {
    const bytes = new Uint8Array(whole);
    for (let n = 0; n < 1 + (i % 4); n++) bytes[Math.floor(random() * dataStart)] = Math.floor(random() * 256);
    try {
      describeProjector(headerOf(bytes));
    } catch (error) {
      expect(error).toBeInstanceOf(GgufError);
    }
  }
});
