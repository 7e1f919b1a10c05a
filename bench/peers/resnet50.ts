/**
 * ResNet-50 with random weights in the same runtime, on all cores, as a well-known reference for the cost of an image of
 * 224 × 224. Prints the median in milliseconds.
 */
import { tmpdir } from "node:os";
import { loadOnnx } from "../../src/native/onnx.ts";
import { floats, type Node, type Tensor, TYPE, writeOnnx } from "../../test/onnx_writer.ts";

const BLOCKS = [3, 4, 6, 3] as const;
const SIDE = 224;
const ROUNDS = 30;
const WARM = 5;

const nodes: Node[] = [];
const tensors: Tensor[] = [];
let count = 0;

function random(name: string, dims: readonly number[], scale: number): string {
  const length = dims.reduce((a, b) => a * b, 1);
  tensors.push(
    floats(
      name,
      dims,
      Float32Array.from({ length }, () => (Math.random() * 2 - 1) * scale),
    ),
  );
  return name;
}

function node(op: string, inputs: string[], attributes: Node["attributes"] = {}): string {
  const output = `t${count++}`;
  nodes.push({ op, inputs, output, attributes });
  return output;
}

/** The normalisation is folded into the weights, as in a deployed network. */
function conv(input: string, shape: [from: number, to: number, kernel: number, stride: number]): string {
  const [from, to, kernel, stride] = shape;
  const pad = (kernel - 1) / 2;
  const weight = random(`w${count}`, [to, from, kernel, kernel], Math.sqrt(3 / (from * kernel * kernel)));
  const bias = random(`b${count}`, [to], 0.1);
  const [kernels, strides, pads] = [[kernel, kernel], [stride, stride], Array(4).fill(pad)];
  return node("Conv", [input, weight, bias], { kernel_shape: kernels as number[], strides: strides as number[], pads });
}

function block(input: string, from: number, width: number, stride: number): string {
  const a = node("Relu", [conv(input, [from, width, 1, 1])]);
  const b = node("Relu", [conv(a, [width, width, 3, stride])]);
  const c = conv(b, [width, width * 4, 1, 1]);
  const around = from === width * 4 ? input : conv(input, [from, width * 4, 1, stride]);
  return node("Relu", [node("Add", [c, around])]);
}

function build(): Uint8Array {
  let x = node("Relu", [conv("image", [3, 64, 7, 2])]);
  x = node("MaxPool", [x], { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] });
  let channels = 64;
  for (const [stage, repeats] of BLOCKS.entries())
    for (let i = 0; i < repeats; i++) {
      x = block(x, channels, 64 << stage, i === 0 && stage > 0 ? 2 : 1);
      channels = 256 << stage;
    }
  const flat = node("Flatten", [node("GlobalAveragePool", [x])]);
  nodes.push({
    op: "Gemm",
    inputs: [flat, random("head", [2_048, 1_000], 0.02), random("head_bias", [1_000], 0.1)],
    output: "classes",
  });
  const input = { name: "image", type: TYPE.float, dims: [1, 3, SIDE, SIDE] };
  return writeOnnx({ nodes, tensors, input, output: { name: "classes", type: TYPE.float, dims: [1, 1_000] } });
}

const onnx = await loadOnnx(tmpdir());
const session = await onnx.InferenceSession.create(build(), { intraOpNumThreads: navigator.hardwareConcurrency });
const image = new onnx.Tensor("float32", Float32Array.from({ length: 3 * SIDE * SIDE }, Math.random), [
  1,
  3,
  SIDE,
  SIDE,
]);
const times: number[] = [];
for (let i = 0; i < WARM + ROUNDS; i++) {
  const begun = performance.now();
  await session.run({ image });
  if (i >= WARM) times.push(performance.now() - begun);
}
console.log(times.sort((a, b) => a - b)[ROUNDS >> 1]);
