/** Moments of weights as bytes on the device: a quarter of F32 (`optim: adamw_8bit`). */
import { ptr, toArrayBuffer } from "bun:ffi";
import { must } from "../../../../native/ffi.ts";
import {
  allocate,
  type Backend,
  newContext,
  newTensor,
  type Ptr,
  putBytes,
  TYPE,
} from "../../../../native/ggml/ggml.ts";
import type { Moments, Step } from "../optimizer.ts";
import type { Trainable, Weights } from "../weights.ts";
import { BLOCK, type Bytes, decoded, encoded, type Factors, stepBlock } from "./block.ts";
import { MAP_SIZE, mapTable } from "./map.ts";

const I8 = 24;
const LEAST = 4096; // weights of a tensor, as in bitsandbytes; smaller ones keep moments in F32

export const isLarge = ({ shape }: Pick<Trainable, "shape">) => elementsOf(shape) >= LEAST;
const elementsOf = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);

export type ByteMoments = {
  has: (name: string) => boolean;
  /** `factors` differ between weights with and without decay. */
  step: (factors: (of: Trainable) => Factors) => void;
  read: (name: string) => Moments;
  put: (moments: Moments) => void;
  readonly bytes: number;
  free: () => void;
};

export function factorsOf(
  how: Step,
  { steps, scale, decay }: { steps: number; scale: number; decay: number },
): Factors {
  const f = Math.fround;
  const [rate, beta1, beta2] = [f(how.learningRate), f(how.beta1), f(how.beta2)];
  return {
    rate,
    beta1,
    rest1: f(1 - beta1),
    beta2,
    rest2: f(1 - beta2),
    epsilon: f(how.epsilon),
    keep: f(1 - f(rate * f(decay))),
    correction1: f(1 / (1 - how.beta1 ** steps)),
    correction2: f(1 / (1 - how.beta2 ** steps)),
    scale: f(scale),
  };
}

type MomentTensors = { first: Ptr; firstMost: Ptr; second: Ptr; secondMost: Ptr };

/** The moments of all large weights, zero at first. */
export function openByteMoments({ backend, trainable }: Weights): ByteMoments {
  const { ggml, kernels } = backend;
  if (backend.kind === "cuda" && !kernels)
    throw new Error(
      "optim adamw_8bit needs the CUDA kernels of Verk, which this build or this GPU lacks: set adamw_torch",
    );
  const large = trainable.filter(isLarge);
  const context = newContext(ggml, large.length * 4 + 1);
  const held = new Map(large.map((each) => [each.name, hold(each)]));
  const table = newTensor(ggml, context, TYPE.F32, [4 * MAP_SIZE]);
  const memory = allocate(backend, context);
  putBytes(ggml, table, mapTable());

  function hold({ shape }: Trainable): MomentTensors {
    const [count, blocks] = [elementsOf(shape), Math.ceil(elementsOf(shape) / BLOCK)];
    const codes = () => newTensor(ggml, context, I8, [count]);
    const most = () => newTensor(ggml, context, TYPE.F32, [blocks]);
    return { first: codes(), firstMost: most(), second: codes(), secondMost: most() };
  }
  const at = (tensor: Ptr) => Number(must(ggml.ggml_get_data(tensor), "memory"));
  const of = (name: string) => held.get(name) as MomentTensors;

  function launch(each: Trainable, by: Factors) {
    const { first, firstMost, second, secondMost } = of(each.name);
    const count = elementsOf(each.shape);
    kernels?.launch("adam_8bit", { grid: [Math.ceil(count / BLOCK), 1, 1], threads: BLOCK }, [
      ...[each.tensor, each.gradient, first, firstMost, second, secondMost, table].map(at),
      ...[by.rate, by.beta1, by.rest1, by.beta2, by.rest2, by.epsilon, by.keep],
      ...[by.correction1, by.correction2, by.scale, count],
    ]);
  }
  return {
    has: (name) => held.has(name),
    step(factors) {
      if (!kernels) {
        for (const each of large) stepOnHost(backend, each, of(each.name), factors(each));
        return;
      }
      kernels.enter();
      for (const each of large) launch(each, factors(each));
      kernels.wait();
    },
    read(name) {
      const { first, firstMost, second, secondMost } = of(name);
      const bytes = (codes: Ptr, most: Ptr) => ({ codes: bytesOf(backend, codes), most: floatsOf(backend, most) });
      const [one, two] = [bytes(first, firstMost), bytes(second, secondMost)];
      return { name, first: decoded(one, "first"), second: decoded(two, "second") };
    },
    put({ name, first, second }) {
      const to = of(name);
      const put = (bytes: Bytes, codes: Ptr, most: Ptr) => {
        putBytes(ggml, codes, bytes.codes);
        putBytes(ggml, most, bytes.most);
      };
      put(encoded(first, "first"), to.first, to.firstMost);
      put(encoded(second, "second"), to.second, to.secondMost);
    },
    bytes: memory.bytes,
    free() {
      memory.free();
      context.free();
    },
  };
}

/** The CPU's tensors are memory of this process. */
function stepOnHost({ ggml }: Backend, { tensor, gradient, shape }: Trainable, held: MomentTensors, by: Factors) {
  const count = elementsOf(shape);
  const blocks = Math.ceil(count / BLOCK);
  const view = (of: Ptr, bytes: number) => toArrayBuffer(must(ggml.ggml_get_data(of), "memory"), 0, bytes);
  const floats = (of: Ptr, length: number) => new Float32Array(view(of, length * 4));
  const of = {
    weights: floats(tensor, count),
    gradient: floats(gradient, count),
    first: { codes: new Uint8Array(view(held.first, count)), most: floats(held.firstMost, blocks) },
    second: { codes: new Uint8Array(view(held.second, count)), most: floats(held.secondMost, blocks) },
  };
  for (let block = 0; block < blocks; block++) stepBlock(of, block, by);
}

function bytesOf({ ggml }: Backend, tensor: Ptr): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(Number(ggml.ggml_nbytes(tensor)));
  ggml.ggml_backend_tensor_get(tensor, ptr(bytes), 0, bytes.byteLength);
  return bytes;
}
const floatsOf = (backend: Backend, tensor: Ptr) => new Float32Array(bytesOf(backend, tensor).buffer);
