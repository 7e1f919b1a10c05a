/**
 * The same passes as the tape's, with our own kernels, for LoRA on an NVIDIA GPU in BF16. Attention needs no T × T
 * table, adapters are part of their weights' products, and there is no host work between kernels. Other cases use the
 * tape.
 */

import { layersKeepingFleeting } from "../../../../lib/training/memory_graph.ts";
import type { Kernels } from "../../../../native/cuda/kernels.ts";
import { must } from "../../../../native/ffi.ts";
import { getFloats, OutOfMemory, type Ptr, putBytes, TYPE } from "../../../../native/ggml/ggml.ts";
import { shapeOf, typeOf } from "../../../../native/ggml/symbols.ts";
import type { Architecture } from "../architecture.ts";
import type { Graph } from "../graph.ts";
import { type GraphShape, scoredOf } from "../inputs.ts";
import { factorsName, type Model } from "../transformer.ts";
import {
  type Activations,
  type Constants,
  dxStride,
  type Size,
  wantActivations,
  wantFleeting,
  wantScratch,
} from "./buffers.ts";
import { decodesToBf16 } from "./decode.ts";
import { type Head, wantHead } from "./head.ts";
import { newFusedInputs } from "./inputs.ts";
import { addNorm, layerBackward, layerForward } from "./layer.ts";
import { Arena, type Buffer } from "./memory.ts";
import { type On, rowThreads } from "./project.ts";
import { EXACT_ROWS, type Exact, openExact } from "./sampler/exact.ts";
import { fitsKernels } from "./unsupported.ts";
import { type FusedWeights, fusedWeights, matricesOf } from "./weights.ts";

/** True if kernels can compute this model's passes for positions below `longest`. */
export function canFuse({ architecture, weights }: Model, longest: number): boolean {
  if (!weights.backend.kernels || !weights.lora) return false;
  if (weights.dropped || weights.packed) return true; // decided before
  if (!fitsKernels(architecture, longest)) return false;
  const tables = architecture.tied ? ["token_embd.weight"] : ["token_embd.weight", "output.weight"];
  const matrices = [...tables, ...matricesOf(architecture)].map((name) => weights.get(name));
  const vectors = vectorsOf(architecture).filter((name) => weights.has(name));
  const areF32 = vectors.every((name) => typeOf(weights.get(name)) === TYPE.F32);
  if (!areF32 || tables.some((name) => weights.has(`${name}.lora_a`))) return false;
  return onePerType(matrices).every((tensor) => decodesToBf16(weights.backend, tensor));
}

const onePerType = (tensors: readonly Ptr[]) => [...new Map(tensors.map((each) => [typeOf(each), each])).values()];

const VECTORS = [
  ...["attn_norm.weight", "ffn_norm.weight", "attn_q_norm.weight", "attn_k_norm.weight"],
  ...["post_attention_norm.weight", "post_ffw_norm.weight"],
];
const biasesOf = ({ joins }: Architecture) =>
  joins.attention ? ["attn_qkv.bias"] : ["attn_q.bias", "attn_k.bias", "attn_v.bias"];
const vectorsOf = (of: Architecture) =>
  Array.from({ length: of.layers }, (_, i) => [...VECTORS, ...biasesOf(of)].map((part) => `blk.${i}.${part}`)).flat();

export function buildFused(model: Model, shape: GraphShape): Graph {
  const { architecture, weights } = model;
  const kernels = weights.backend.kernels as Kernels;
  kernels.enter();
  const fused = fusedWeights(kernels, architecture, weights);
  const arena = new Arena(weights.backend);
  const planned = plan(arena, model, shape, fused);
  try {
    arena.allocate();
  } catch (error) {
    fused.free();
    throw error instanceof OutOfMemory ? new OutOfMemory("The device has no memory for the graph") : error;
  }
  const passes = newPasses(model, shape, { kernels, fused, ...planned });
  const { ggml } = weights.backend;
  const read = (from: Buffer) => planned.inputs.spread(getFloats(ggml, from.tensor));
  let hasRun = false;
  return {
    forward(batch) {
      kernels.enter();
      planned.inputs.put(batch);
      passes.forward();
      kernels.wait();
      hasRun = true;
      return read(planned.head.logps);
    },
    divergences() {
      throw new Error("Our own kernels compare nothing with a teacher");
    },
    states() {
      throw new Error("Our own kernels keep no inputs of the output layer");
    },
    entropies() {
      if (!planned.head.entropies || !hasRun) throw new Error("This graph computes no entropies");
      return read(planned.head.entropies);
    },
    backward(tokenWeights) {
      if (!shape.trains) throw new Error("This graph has no backward pass");
      kernels.enter();
      planned.inputs.putWeights(tokenWeights);
      passes.backward();
      kernels.wait();
    },
    later: new Map(), // every weight gets one gradient in a pass
    bytes: arena.bytes + fused.bytes,
    free() {
      arena.free();
      fused.free();
    },
  };
}

type Planned = {
  size: Size;
  /** Layers from this one on have their own fleeting activations. The last layer's are always fresh. */
  firstFresh: number;
  head: Head;
  inputs: ReturnType<typeof newFusedInputs>;
  kept: Activations[];
  scratch: On["scratch"];
  last: { x: Buffer; normed: Buffer; inverse: Buffer };
  biases: Buffer[];
};

function plan(arena: Arena, { architecture, weights }: Model, shape: GraphShape, fused: FusedWeights): Planned {
  const { width, forward, heads, keyHeads, headLength, layers, scales, caps } = architecture;
  const count = shape.tokens * shape.rows;
  const size: Size = {
    tokens: shape.tokens,
    rows: shape.rows,
    count,
    width,
    forward,
    heads,
    keyHeads,
    head: headLength,
    epsilon: architecture.epsilon,
    activation: architecture.activation,
    halves: architecture.ropeMode === 2 ? architecture.rotated / 2 : 0,
    scores: scales.scores,
    residual: scales.residual,
    cap: caps.scores,
  };
  const layer = fused.layers[0] as FusedWeights["layers"][number];
  const how = {
    fleeting: wantFleeting(arena, size, layer),
    normsHeads: architecture.headNorms,
    normsResults: architecture.postNorms,
  };
  const shared = shape.trains && !shape.checkpoints ? null : wantActivations(arena, size, layer, how);
  const firstFresh = layers - layersKeepingFleeting({ layers, width, forward }, count);
  const keptOf = (i: number): Activations => {
    const weightsOfLayer = fused.layers[i] ?? layer;
    if (!shared && i >= firstFresh && i > 0)
      return wantActivations(arena, size, weightsOfLayer, {
        ...how,
        fleeting: wantFleeting(arena, size, weightsOfLayer),
      });
    if (!shared) return wantActivations(arena, size, weightsOfLayer, how);
    return shape.trains ? { ...shared, x0: arena.want("f32", count * width) } : shared;
  };
  const head = wantHead(
    arena,
    {
      vocab: architecture.vocab,
      width,
      scored: scoredOf(shape),
      chunk: chunkOf(shape),
      temperature: shape.temperature ?? 1,
      scale: scales.logits,
      cap: caps.logits,
    },
    {
      all: scoredOf(shape) === count,
      entropies: shape.entropies ?? false,
      gradient: shape.trains,
      pieces: fused.output.most < architecture.vocab,
    },
  );
  return {
    size,
    firstFresh,
    head,
    inputs: newFusedInputs(arena, shape, { architecture, weights }, head),
    kept: Array.from({ length: layers }, (_, i) => keptOf(i)),
    scratch: wantScratch(arena, size, layer, { trains: shape.trains, drops: shape.dropout !== undefined }),
    last: {
      x: arena.want("f32", count * width),
      normed: arena.want("bf16", count * width),
      inverse: arena.want("f32", count),
    },
    biases: biasesOf(architecture).some((part) => weights.has(`blk.0.${part}`))
      ? Array.from({ length: layers }, () => arena.want("f32", (heads + 2 * keyHeads) * headLength))
      : [],
  };
}

/** Rows of logits at once. Exact products take whole tiles of them. */
const chunkOf = ({ headChunk, exact }: GraphShape) =>
  exact ? Math.max(1, Math.floor(headChunk / EXACT_ROWS)) * EXACT_ROWS : headChunk;

function newPasses(model: Model, shape: GraphShape, of: Planned & { kernels: Kernels; fused: FusedWeights }) {
  const { weights, architecture } = model;
  const { kernels, fused, size, head, inputs, kept, scratch, last } = of;
  const { ggml } = weights.backend;
  const address = (name: string) =>
    weights.has(name) ? Number(must(ggml.ggml_get_data(weights.get(name)), "memory")) : 0;
  const constants = kept.map((_, layer) => constantsOf(model, layer, of.biases[layer] ?? null));
  inputs.putTurns(rotationFactors(model, shape.tokens));
  if (shape.exact && !model.merged) throw new Error("An exact pass needs the weights of the sampler");
  const exact: Exact | null = shape.exact && model.merged ? openExact(kernels, fused.layers, model.merged) : null;
  const on: On = {
    exact,
    trains: shape.trains,
    kernels,
    size,
    scratch,
    shared: inputs.shared(),
    reference: shape.reference ?? false,
    dropping: shape.dropout ? inputs.dropping(shape.dropout) : null,
  };
  const outputNorm = address("output_norm.weight");
  const at = (i: number) => ({ kept: kept[i] as Activations, constants: constants[i] as Constants });
  const layerOf = (i: number) => fused.layers[i] as FusedWeights["layers"][number];
  const rowGrid = { grid: [size.count, 1, 1] as const, threads: rowThreads(size.width) };

  return {
    forward() {
      if (!on.reference) fused.refresh();
      const first = (kept[0] as Activations).x0;
      fused.embed(inputs.ids, first, size.count);
      const { embedding } = architecture.scales;
      if (embedding !== 1) kernels.launch("scale_rows", rowGrid, [first.at, size.width, embedding]);
      let from = { x: first.at, more: 0 };
      for (let i = 0; i < kept.length; i++) {
        layerForward(on, layerOf(i), at(i), { from, down: true });
        from = { x: (kept[i] as Activations).x1.at, more: scratch.y.at };
      }
      addNorm(on, from, last, { weight: outputNorm, stride: size.width });
      head.run(kernels, last.normed, fused.output, exact);
    },
    backward() {
      const layers = kept.length;
      kernels.launch("norm_back", rowGrid, [
        ...[(head.gradient as Buffer).at, inputs.rowOf.at, inputs.factors.at, last.x.at, last.inverse.at, outputNorm],
        ...[scratch.sum.at, scratch.dx.at, size.width, dxStride(layerOf(layers - 1)), 1, size.residual],
      ]);
      for (let i = layers - 1; i >= 0; i--) {
        const again = { x: (kept[i] as Activations).x0.at, more: 0 };
        if (shape.checkpoints) layerForward(on, layerOf(i), at(i), { from: again, down: false });
        const isFresh = shape.checkpoints || i >= of.firstFresh || i === layers - 1;
        layerBackward(on, layerOf(i), at(i), { goesOn: i > 0, isFresh });
      }
      fused.addGradients();
    },
  };
}

/** Divisors of the angles, by pair. Those for long contexts depend on the longest sequence of the run. */
function rotationFactors({ architecture, weights, longest }: Model, tokens: number): Float32Array | null {
  const name = factorsName(architecture, weights, longest ?? tokens);
  return name === null ? null : getFloats(weights.backend.ggml, weights.get(name));
}

function constantsOf({ architecture, weights }: Model, layer: number, bias: Buffer | null): Constants {
  const { backend, get, has } = weights;
  const { ggml } = backend;
  const name = (part: string) => `blk.${layer}.${part}`;
  const address = (part: string) => (has(name(part)) ? Number(must(ggml.ggml_get_data(get(name(part))), "memory")) : 0);
  if (bias) {
    let at = 0;
    for (const part of biasesOf(architecture)) {
      const length = shapeOf(get(name(part.replace("bias", "weight"))))[1];
      if (has(name(part))) putBytes(ggml, bias.tensor, getFloats(ggml, get(name(part))), at * 4);
      at += length;
    }
  }
  const results = architecture.postNorms ? ["post_attention_norm.weight", "post_ffw_norm.weight"] : [];
  const [result1 = 0, result2 = 0] = results.map(address);
  return {
    norm1: address("attn_norm.weight"),
    norm2: address("ffn_norm.weight"),
    result1,
    result2,
    bias: bias?.at ?? 0,
    queryNorm: address("attn_q_norm.weight"),
    keyNorm: address("attn_k_norm.weight"),
    rotates: architecture.rotates[layer] ?? true,
    isWindowed: architecture.window?.layers[layer] ?? false,
  };
}
