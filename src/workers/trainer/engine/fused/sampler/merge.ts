/**
 * Merges the adapter into the sampling engine's weights. A separate adapter would read each of them again for every
 * token. It always starts from the frozen weights, so that rounding errors do not add up over the steps.
 */

import type { Kernels } from "../../../../../native/cuda/kernels.ts";
import { TYPE } from "../../../../../native/ggml/ggml.ts";
import { typeOf } from "../../../../../native/ggml/symbols.ts";
import type { WeightPlace, WeightPlaces } from "../../../../../native/llama/weights.ts";
import type { Architecture } from "../../architecture.ts";
import type { Weights } from "../../weights.ts";
import { past } from "../memory.ts";
import { type FusedWeights, fusedWeights, type Group } from "../weights.ts";

const THREADS = 128;
const COLUMNS = 8; // per thread
const ROWS = 4;

type Merge = { group: Group; column: number; rank: number; firstRow: number; place: WeightPlace };

/** `merge` returns false and writes nothing if a weight with an adapter has another location or type. */
export type Merger = {
  merge: (locations: WeightPlaces, seed: number) => boolean;
  readonly bytes: number;
  free: () => void;
};

export function openMerger(architecture: Architecture, weights: Weights): Merger {
  const kernels = weights.backend.kernels as Kernels;
  kernels.enter();
  const fused = fusedWeights(kernels, architecture, weights);
  return {
    merge(locations, seed) {
      const merges = planMerges(fused, weights, locations);
      if (!merges) return false;
      kernels.enter();
      kernels.wait(); // a sampler's last step may still read its weights
      fused.refresh();
      for (const [i, each] of merges.entries()) launch(kernels, each, seedOf(seed, i));
      kernels.wait();
      return true;
    },
    bytes: fused.bytes,
    free: () => fused.free(),
  };
}

function planMerges({ layers }: FusedWeights, weights: Weights, locations: WeightPlaces): Merge[] | null {
  if (weights.packed) return null;
  const merges: Merge[] = [];
  for (const layer of layers)
    for (const group of [layer.qkv, layer.output, layer.gateUp, layer.down])
      for (const { name, column, rank, firstRow, rows } of group.adapters) {
        const place = locations(name);
        if (!place?.onDevice || place.type !== TYPE.BF16 || typeOf(weights.get(name)) !== TYPE.BF16) return null;
        if (place.columns !== group.inputs || place.rows !== rows) return null;
        merges.push({ group, column, rank, firstRow, place });
      }
  return merges;
}

function launch(kernels: Kernels, { group, column, rank, firstRow, place }: Merge, seed: number) {
  const { matrix, stride, inputs, outputs } = group;
  const w = past("bf16", matrix.at, firstRow * stride);
  const a = past("bf16", matrix.at, (outputs + column) * stride);
  const grid = [Math.ceil(inputs / COLUMNS / THREADS), Math.ceil(place.rows / ROWS), 1] as const;
  kernels.launch("merge_adapter", { grid, threads: THREADS }, [
    ...[w, stride, a, place.address, place.rows, inputs, inputs + column, rank, seed],
  ]);
}

/** Different for every step and matrix, but the same when a step is repeated. */
const seedOf = (seed: number, i: number) => (Math.imul(seed, 0x9e3779b1) ^ Math.imul(i + 1, 0x85ebca6b)) | 0;
