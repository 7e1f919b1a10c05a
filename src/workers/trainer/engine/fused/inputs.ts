/** Writes one batch into the fused passes and arranges their results. */

import { type AttentionKind, attentionKind } from "../../../../native/cuda/kernels.ts";
import { must } from "../../../../native/ffi.ts";
import { putBytes } from "../../../../native/ggml/ggml.ts";
import type { Architecture } from "../architecture.ts";
import { choices, type Patterns } from "../dropout.ts";
import { type Batch, type GraphShape, scoredOf } from "../inputs.ts";
import type { Weights } from "../weights.ts";
import type { Shared, View } from "./buffers.ts";
import type { Head } from "./head.ts";
import { type Arena, past } from "./memory.ts";
import type { Dropping } from "./project.ts";
import { isUneven, keyTilesOf, SEEN, seenOf, TILE, tilesOf } from "./sight.ts";
import { noTurns, turnsOf } from "./turns.ts";

const NEVER = 0x7fffffff; // a window that no row exceeds

type Of = { architecture: Architecture; weights: Weights };

export function newFusedInputs(arena: Arena, shape: GraphShape, { architecture, weights }: Of, head: Head) {
  const { tokens, rows } = shape;
  const [count, scored] = [tokens * rows, scoredOf(shape)];
  const { ggml } = arena.backend;
  const ids = arena.want("i32", count);
  const positions = arena.want("i32", count);
  const seen = arena.want("i32", count * SEEN);
  const wantTiles = () => arena.want("i32", rows * tilesOf(tokens) * TILE);
  const rowOf = arena.want("i32", count);
  const factors = arena.want("f32", scored);
  const wantTurns = () => arena.want("f32", tokens * architecture.headLength);
  const full = { turns: wantTurns(), tiles: wantTiles(), window: NEVER, rotation: architecture, uneven: false };
  const { window } = architecture;
  const windowed = window
    ? {
        turns: wantTurns(),
        tiles: wantTiles(),
        window: window.size,
        uneven: false,
        rotation: { ...architecture, ropeBase: window.ropeBase, ropeScale: window.ropeScale },
      }
    : full;
  const views = window ? [full, windowed] : [full];
  const still = architecture.rotates.includes(false) ? wantTurns() : full.turns;
  const viewOf = (of: typeof full): View => ({
    turns: of.turns.at,
    tiles: of.tiles.at,
    window: of.window,
    kind: mustBeKind(architecture, of.window < tokens),
    get uneven() {
      return of.uneven;
    },
  });
  const names = shape.dropout ? adapted(weights) : [];
  const choice = arena.want("i32", Math.max(1, names.length * count));
  let indexes: Int32Array = new Int32Array();
  let hasTarget: Uint8Array = new Uint8Array();
  return {
    ids,
    /** For each token its row among the scored ones; below zero: none. */
    rowOf,
    /** For each scored row the factor of its gradient. */
    factors,
    shared: (): Shared => ({
      positions: positions.at,
      still: still.at,
      seen: seen.at,
      full: viewOf(full),
      windowed: viewOf(windowed),
    }),
    dropping: (patterns: Patterns): Dropping => ({
      patterns: (width) => Number(must(ggml.ggml_get_data(patterns.of(width)), "memory")),
      choice: (name) => past("i32", choice.at, names.indexOf(name) * count),
    }),
    putTurns(factors: Float32Array | null) {
      for (const view of views) putBytes(ggml, view.turns.tensor, turnsOf(view.rotation, tokens, factors));
      if (still !== full.turns) putBytes(ggml, still.tensor, noTurns(architecture, tokens));
    },
    put(batch: Batch) {
      mustBePositions(batch.positions, tokens);
      indexes = scoredPositions(batch.targets, scored);
      hasTarget = new Uint8Array(count);
      for (let i = 0; i < count; i++) hasTarget[i] = (batch.targets[i] as number) < 0 ? 0 : 1;
      const back = new Int32Array(count).fill(-1);
      for (let i = 0; i < scored; i++) if ((indexes[i] as number) >= 0) back[indexes[i] as number] = i;
      putBytes(ggml, ids.tensor, batch.ids);
      putBytes(ggml, positions.tensor, batch.positions);
      const sees = seenOf(batch, tokens);
      putBytes(ggml, seen.tensor, sees);
      for (const view of views) {
        const some = keyTilesOf(sees, tokens, view.window);
        putBytes(ggml, view.tiles.tensor, some);
        view.uneven = isUneven(some, architecture, arena.backend.kernels?.multiprocessors ?? 1);
      }
      putBytes(ggml, rowOf.tensor, back);
      if (head.indexes) putBytes(ggml, head.indexes.tensor, indexes);
      putBytes(ggml, head.targets.tensor, targetsAt(batch.targets, indexes));
      if (names.length > 0)
        putBytes(ggml, choice.tensor, choices(batch.dropSeeds ?? new Uint32Array(count), names.length));
    },
    /** One weight for each position of the batch. */
    putWeights(values: Float32Array) {
      const scoredValues = new Float32Array(scored);
      for (let i = 0; i < scored; i++)
        if (hasTarget[indexes[i] as number]) scoredValues[i] = values[indexes[i] as number] as number;
      putBytes(ggml, factors.tensor, scoredValues);
    },
    /** Returns the values of the scored rows at their positions of the batch; 0 without a target. */
    spread(values: Float32Array): Float32Array {
      const all = new Float32Array(count);
      for (let i = 0; i < scored; i++)
        if (hasTarget[indexes[i] as number]) all[indexes[i] as number] = values[i] as number;
      return all;
    },
  };
}

function mustBeKind({ headLength, caps }: Architecture, isNarrow: boolean): AttentionKind {
  const kind = attentionKind(headLength, isNarrow || caps.scores !== 0);
  if (!kind) throw new Error(`There are no kernels for heads of ${headLength}`);
  return kind;
}

const adapted = ({ trainable }: Weights) =>
  trainable.flatMap(({ name }) => (name.endsWith(".lora_a") ? [name.slice(0, -".lora_a".length)] : []));

/** Returns the positions that the output layer sees, in order; -1: none. If all can be scored, returns all. */
function scoredPositions(targets: Int32Array, scored: number): Int32Array {
  const indexes = new Int32Array(scored).fill(-1);
  const takesAll = scored === targets.length;
  let count = 0;
  for (let place = 0; place < targets.length; place++) {
    if (!takesAll && (targets[place] as number) < 0) continue;
    if (count === scored) throw new RangeError(`More than ${scored} positions of a batch have targets`);
    indexes[count++] = place;
  }
  return indexes;
}

function targetsAt(targets: Int32Array, indexes: Int32Array): Int32Array {
  const scoredTargets = new Int32Array(indexes.length).fill(-1);
  for (let i = 0; i < indexes.length; i++)
    if ((indexes[i] as number) >= 0) scoredTargets[i] = targets[indexes[i] as number] as number;
  return scoredTargets;
}

function mustBePositions(positions: Int32Array, tokens: number) {
  for (let i = 0; i < positions.length; i++)
    if ((positions[i] as number) < 0 || (positions[i] as number) >= tokens)
      throw new RangeError(`Positions must be from 0 to ${tokens - 1}, the length of a row`);
}
