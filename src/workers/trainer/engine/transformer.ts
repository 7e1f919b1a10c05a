/** The forward pass of every trainable family, from token ids to the output layer's input. */
import type { WeightPlaces } from "../../../native/llama/weights.ts";
import { geglu, swiglu } from "./activations.ts";
import type { Architecture } from "./architecture.ts";
import { attention, type Masks } from "./attention.ts";
import type { Drop } from "./dropout.ts";
import { mixture } from "./experts.ts";
import {
  add,
  addConstant,
  bias,
  linear,
  mulConstant,
  type Rope,
  reshape,
  rmsNorm,
  rope,
  rows,
  scale,
  split,
  type UsedRows,
} from "./ops.ts";
import type { Tape, Tensor } from "./tape.ts";
import { loraNames, loraScale, type Weights } from "./weights.ts";

export type Inputs = {
  /** [tokens of all rows] */
  ids: Tensor;
  /** Used rows of the embedding table, if it is trained. */
  usedRows: UsedRows | null;
  /** [tokens of all rows], counted in each sequence. */
  positions: Tensor;
  masks: Masks;
  /** Masks of the layers that see only a window of positions. The same as `masks` if no row is longer. */
  windowMasks: Masks;
  /** [1, 1, tokens of all rows]: factors of the queries. Null: all are 1. */
  queryFactors: Tensor | null;
  /** [width, tokens of all rows]: added to the embeddings. Null: nothing is. */
  noise: Tensor | null;
  /** Tokens of a row, and number of rows. */
  tokens: number;
  rows: number;
};

export type Model = {
  architecture: Architecture;
  weights: Weights;
  /** Tokens of the longest sequence of the run, which chooses factors for long contexts. Absent: those of a row. */
  longest?: number;
  /** Dropout of adapter inputs, in a graph that trains. */
  drop?: Drop;
  /** Gives the divergences of a graph with `divergence`. On the same device. */
  teacher?: Model;
  /** The sampler's weights with the adapter merged, which exact graphs multiply by. */
  merged?: WeightPlaces;
};

/** `checkpoints`: keep only the input of each layer. */
export function hidden(tape: Tape, model: Model, inputs: Inputs, checkpoints: boolean): Tensor {
  const { architecture, weights } = model;
  const embeddings = rows(tape, weights.get("token_embd.weight"), inputs.ids, inputs.usedRows);
  let x = scaled(tape, embeddings, architecture.scales.embedding);
  if (inputs.noise) x = addConstant(tape, x, inputs.noise);
  for (let layer = 0; layer < architecture.layers; layer++) {
    const build = (on: Tape, from: Tensor) => block(on, model, from, { inputs, layer });
    x = checkpoints ? tape.checkpoint(x, build) : build(tape, x);
  }
  const normed = rmsNorm(tape, x, weights.get("output_norm.weight"), architecture.epsilon);
  return scaled(tape, normed, architecture.scales.logits); // narrower than the logits
}

const scaled = (tape: Tape, x: Tensor, by: number) => (by === 1 ? x : scale(tape, x, by));

export const outputLayer =
  (model: Model) =>
  (tape: Tape, x: Tensor): Tensor =>
    project(tape, model, model.architecture.tied ? "token_embd.weight" : "output.weight", x);

type At = { inputs: Inputs; layer: number };

function block(tape: Tape, model: Model, x: Tensor, at: At): Tensor {
  const { architecture, weights } = model;
  const { epsilon, postNorms, scales } = architecture;
  const name = (part: string) => `blk.${at.layer}.${part}.weight`;
  const norm = (part: string, of: Tensor) => rmsNorm(tape, of, weights.get(name(part)), epsilon);
  const added = (to: Tensor, result: Tensor, postNorm: string) =>
    add(tape, to, scaled(tape, postNorms ? norm(postNorm, result) : result, scales.residual));
  const attended = biased(tape, model, name("attn_output"), attend(tape, model, norm("attn_norm", x), at));
  const x1 = added(x, attended, "post_attention_norm");
  return added(x1, feedForward(tape, model, norm(architecture.forwardNorm, x1), at), "post_ffw_norm");
}

function feedForward(tape: Tape, model: Model, x: Tensor, { layer }: At): Tensor {
  const { joins, activation, forward, experts } = model.architecture;
  if (experts) return mixture(tape, model.weights, x, { layer, experts });
  const projected = (part: string, from: Tensor) => project(tape, model, `blk.${layer}.ffn_${part}.weight`, from);
  const [gate, up] = joins.forward
    ? (split(tape, projected("up", x), [forward, forward]) as [Tensor, Tensor])
    : [projected("gate", x), projected("up", x)];
  return projected("down", activation === "gelu" ? geglu(tape, gate, up) : swiglu(tape, gate, up));
}

function attend(tape: Tape, model: Model, x: Tensor, at: At): Tensor {
  const { architecture, weights } = model;
  const { headLength, heads, keyHeads, epsilon, scales, caps, headNorms, window } = architecture;
  const { tokens, rows: batch, positions, masks, windowMasks, queryFactors } = at.inputs;
  const turn = ropeOf(model, at);
  const { q, k, v } = queriesKeysValues(tape, model, x, at.layer);
  const byHead = (y: Tensor, count: number) => reshape(tape, y, [headLength, count, tokens * batch, 1]);
  const turned = (part: "q" | "k", y: Tensor, count: number) => {
    const norm = `blk.${at.layer}.attn_${part}_norm.weight`;
    const normed = headNorms ? rmsNorm(tape, byHead(y, count), weights.get(norm), epsilon) : byHead(y, count);
    return turn ? rope(tape, normed, positions, turn) : normed;
  };
  const plain = turned("q", q, heads);
  const queries = queryFactors ? mulConstant(tape, plain, queryFactors) : plain;
  const inRows = (y: Tensor, count: number) => reshape(tape, y, [headLength, count, tokens, batch]);
  const sinks = `blk.${at.layer}.attn_sinks.weight`;
  const step = {
    masks: window?.layers[at.layer] ? windowMasks : masks,
    scale: scales.scores,
    cap: caps.scores,
    sinks: weights.has(sinks) ? weights.get(sinks) : null,
  };
  const [keys, values] = [turned("k", k, keyHeads), byHead(v, keyHeads)];
  return attention(tape, inRows(queries, heads), inRows(keys, keyHeads), inRows(values, keyHeads), step);
}

function queriesKeysValues(tape: Tape, model: Model, x: Tensor, layer: number) {
  const { headLength, heads, keyHeads, joins } = model.architecture;
  const projected = (part: string) => biased(tape, model, `blk.${layer}.attn_${part}.weight`, x);
  if (!joins.attention) return { v: projected("v"), q: projected("q"), k: projected("k") };
  const lengths = [heads, keyHeads, keyHeads].map((count) => count * headLength);
  const [q, k, v] = split(tape, projected("qkv"), lengths) as [Tensor, Tensor, Tensor];
  return { q, k, v };
}

function biased(tape: Tape, model: Model, name: string, x: Tensor): Tensor {
  const y = project(tape, model, name, x);
  const added = name.replace(/weight$/, "bias");
  return model.weights.has(added) ? bias(tape, y, model.weights.get(added)) : y;
}

/** Null if the layer's queries and keys are not rotated. */
function ropeOf({ architecture, weights, longest }: Model, { inputs, layer }: At): Rope | null {
  const { rotates, window, rotated, ropeMode, yarn } = architecture;
  if (!rotates[layer]) return null;
  const { ropeBase, ropeScale } = window?.layers[layer] ? window : architecture;
  const factors = factorsName(architecture, weights, longest ?? inputs.tokens);
  return {
    dimensions: rotated,
    mode: ropeMode,
    base: ropeBase,
    frequencyScale: ropeScale,
    factors: factors === null ? null : weights.get(factors),
    yarn,
  };
}

/** The weight that divides the angles, if there is one. llama.cpp chooses by the size of the context. */
export function factorsName({ yarn }: Architecture, weights: Weights, longest: number): string | null {
  const isLong = longest > yarn.originalContext;
  const names = ["rope_freqs.weight", isLong ? "rope_factors_long.weight" : "rope_factors_short.weight"];
  return names.find((name) => weights.has(name)) ?? null;
}

/** W·x, plus s·B·A·x if the layer has an adapter. */
function project(tape: Tape, { weights, drop }: Model, name: string, x: Tensor): Tensor {
  const y = linear(tape, weights.get(name), x);
  const { a, b } = loraNames(name);
  if (!weights.lora || !weights.has(a)) return y;
  const read = drop ? drop(tape, name, x) : x;
  // scaled here because it is a hundred times narrower
  const low = scale(tape, linear(tape, weights.get(a), read), loraScale(weights.lora));
  return add(tape, y, linear(tape, weights.get(b), low));
}
