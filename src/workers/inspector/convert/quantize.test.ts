/** Mixed quantizations against libllama's own quantizer: the same types, and the same bytes. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../../test/harness.ts";
import { filesIn, SIZE, writeFolder } from "../../../../test/hugging_face.ts";
import { makeModel } from "../../../../test/models.ts";
import { greedy } from "../../../../test/serving/reference.ts";
import { type MixedModel, mixedType, QUANTIZATIONS, type Quantization } from "../../../lib/checkpoints/mix.ts";
import { decode } from "../../../lib/checkpoints/numbers.ts";
import { type Header, parseGguf, type Tensor } from "../../../lib/gguf/parse.ts";
import { quantizeModel } from "../../../native/llama/quantize.ts";
import { convert } from "./convert.ts";
import { encoderFor } from "./encode.ts";

const encode = encoderFor("");
const MIXES = QUANTIZATIONS.filter((each) => each !== "Q8_0");

function opened(path: string) {
  const bytes = readFileSync(path);
  const header = parseGguf(bytes, bytes.byteLength) as Header;
  const content = ({ offset, bytes: length }: Tensor) => bytes.subarray(header.dataStart + offset).subarray(0, length);
  return { header, content };
}

function byLibllama(from: string, quantization: Quantization): string {
  const to = join(tempDir(), `${quantization}.gguf`);
  quantizeModel(tempDir(), { cuda: false }, { from, to, quantization, threads: 1 });
  return to;
}

test.each(MIXES)("%s of a model with whole super blocks", (quantization) => {
  const layers = 9; // an eighth, and every third between
  const from = makeModel(tempDir(), { arch: "qwen2", type: "F32", width: 256, heads: 4, kvHeads: 2, ff: 256, layers });
  const [exact, expected] = [opened(from), opened(byLibllama(from, quantization))];
  const hasOutput = exact.header.tensors.has("output.weight");
  const model: MixedModel = { architecture: "qwen2", layers, experts: 0, heads: 4, kvHeads: 2, hasOutput };
  let compared = 0;
  for (const tensor of exact.header.tensors.values()) {
    const other = expected.header.tensors.get(tensor.name);
    if (!other || tensor.dims.length === 1) continue;
    const [columns = 0] = tensor.dims;
    const type = mixedType(quantization, { name: tensor.name, columns }, model);
    expect([tensor.name, type]).toEqual([tensor.name, other.type.name as typeof type]);
    if (type === undefined) continue;
    const values = decode("F32", exact.content(tensor), new Float32Array(tensor.elements));
    expect(Buffer.from(encode(type, values, columns)).equals(Buffer.from(expected.content(other)))).toBe(true);
    compared++;
  }
  expect(compared).toBeGreaterThan(60);
});

test("a folder becomes the file that libllama makes of its exact conversion", async () => {
  const dir = tempDir();
  writeFolder(dir, { architecture: "qwen3", dtype: "F32" }); // rows of 64: the types for smaller blocks
  const made = async (quantize: Quantization | null) => {
    const into = join(tempDir(), "m.gguf");
    const { shape } = await convert({ files: filesIn(dir), name: "m", into, quantize, dataDir: "", onProgress() {} });
    return { into, shape };
  };
  const exact = await made(null);
  for (const quantization of MIXES) {
    const { into, shape } = await made(quantization);
    expect(shape.quantization).toBe(quantization);
    const [own, theirs] = [opened(into), opened(byLibllama(exact.into, quantization))];
    for (const [name, tensor] of own.header.tensors) {
      const other = theirs.header.tensors.get(name) as Tensor;
      expect([name, tensor.type.name]).toEqual([name, other.type.name]);
      expect(Buffer.from(own.content(tensor)).equals(Buffer.from(theirs.content(other)))).toBe(true);
    }
    expect(greedy(into, Int32Array.of(40, 50), 1).logits[0]?.length).toBe(SIZE.vocab);
  }
});

test("a weight that is not a number is refused", () => {
  const values = new Float32Array(256).fill(1);
  values[7] = Number.NaN;
  expect(() => encode("Q4_K", values, 256)).toThrow("A weight is not a number");
});
