/** The forward pass of llama, qwen2 and qwen3, from token ids to the output layer's input. */
import { type Architecture, usesHeadNorms } from "./architecture.ts";
import { attention, type Masks } from "./attention.ts";
import type { Drop } from "./dropout.ts";
import { add, bias, linear, type Rope, reshape, rmsNorm, rope, rows, scale, swiglu, type UsedRows } from "./ops.ts";
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
  /** Tokens of a row, and number of rows. */
  tokens: number;
  rows: number;
};

export type Model = {
  architecture: Architecture;
  weights: Weights;
  /** Dropout of adapter inputs, in a graph that trains. */
  drop?: Drop;
};

/** `checkpoints`: keep only the input of each layer. */
export function hidden(tape: Tape, model: Model, inputs: Inputs, checkpoints: boolean): Tensor {
  const { architecture, weights } = model;
  let x = rows(tape, weights.get("token_embd.weight"), inputs.ids, inputs.usedRows);
  for (let layer = 0; layer < architecture.layers; layer++) {
    const build = (on: Tape, from: Tensor) => block(on, model, from, { inputs, layer });
    x = checkpoints ? tape.checkpoint(x, build) : build(tape, x);
  }
  return rmsNorm(tape, x, weights.get("output_norm.weight"), architecture.epsilon);
}

export const outputLayer =
  (model: Model) =>
  (tape: Tape, x: Tensor): Tensor =>
    project(tape, model, model.architecture.tied ? "token_embd.weight" : "output.weight", x);

type At = { inputs: Inputs; layer: number };

function block(tape: Tape, model: Model, x: Tensor, at: At): Tensor {
  const { architecture, weights } = model;
  const name = (part: string) => `blk.${at.layer}.${part}.weight`;
  const normed = rmsNorm(tape, x, weights.get(name("attn_norm")), architecture.epsilon);
  const attended = attend(tape, model, normed, at);
  const x1 = add(tape, x, project(tape, model, name("attn_output"), attended));
  const again = rmsNorm(tape, x1, weights.get(name("ffn_norm")), architecture.epsilon);
  const gate = project(tape, model, name("ffn_gate"), again);
  const up = project(tape, model, name("ffn_up"), again);
  return add(tape, x1, project(tape, model, name("ffn_down"), swiglu(tape, gate, up)));
}

function attend(tape: Tape, model: Model, x: Tensor, { inputs, layer }: At): Tensor {
  const { architecture, weights } = model;
  const { headLength, heads, keyHeads, epsilon } = architecture;
  const { tokens, rows: batch, positions, masks } = inputs;
  const factors = weights.has("rope_freqs.weight") ? weights.get("rope_freqs.weight") : null;
  const turn: Rope = {
    dimensions: headLength,
    mode: architecture.ropeMode,
    base: architecture.ropeBase,
    frequencyScale: architecture.ropeScale,
    factors,
    yarn: architecture.yarn,
  };
  const projected = (part: "q" | "k" | "v", count: number) => {
    const y = project(tape, model, `blk.${layer}.attn_${part}.weight`, x);
    const biasName = `blk.${layer}.attn_${part}.bias`;
    const shifted = weights.has(biasName) ? bias(tape, y, weights.get(biasName)) : y;
    return reshape(tape, shifted, [headLength, count, tokens * batch, 1]);
  };
  const turned = (part: "q" | "k", count: number) => {
    const y = projected(part, count);
    const norm = `blk.${layer}.attn_${part}_norm.weight`;
    const normed = usesHeadNorms(architecture) ? rmsNorm(tape, y, weights.get(norm), epsilon) : y;
    return reshape(tape, rope(tape, normed, positions, turn), [headLength, count, tokens, batch]);
  };
  const values = reshape(tape, projected("v", keyHeads), [headLength, keyHeads, tokens, batch]);
  const step = { masks, scale: 1 / Math.sqrt(headLength) };
  return attention(tape, turned("q", heads), turned("k", keyHeads), values, step);
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
