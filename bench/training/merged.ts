/** Weights with the adapter merged, in memory beside the trainer's: an exact pass multiplies by them, without a sampler. */
import { TYPE } from "../../src/native/ggml/ggml.ts";
import { shapeOf } from "../../src/native/ggml/symbols.ts";
import type { WeightPlace, WeightPlaces } from "../../src/native/llama/weights.ts";
import { Arena } from "../../src/workers/trainer/engine/fused/memory.ts";
import { openMerger } from "../../src/workers/trainer/engine/fused/sampler/merge.ts";
import { matricesOf } from "../../src/workers/trainer/engine/fused/weights.ts";
import type { Model } from "../../src/workers/trainer/engine/transformer.ts";
import { frozenPlaces } from "../../src/workers/trainer/engine/weights.ts";

const SEED = 1; // of the rounding

/** Only for BF16 weights. Matrices without an adapter are used in place. */
export function mergeApart({ architecture, weights }: Model): { locations: WeightPlaces; free: () => void } {
  const arena = new Arena(weights.backend);
  const frozen = frozenPlaces(weights);
  const sized = matricesOf(architecture).map((name) => {
    const [columns, rows] = shapeOf(weights.get(name));
    return { name, columns, rows, buffer: frozen(name) ? null : arena.want("bf16", columns * rows) };
  });
  arena.allocate();
  const found = new Map(
    sized.map(({ name, columns, rows, buffer }): [string, WeightPlace] => {
      const address = buffer?.at ?? frozen(name)!.address;
      return [name, { address, type: TYPE.BF16, columns, rows, onDevice: true }];
    }),
  );
  const locations: WeightPlaces = (name) => found.get(name) ?? null;
  const merger = openMerger(architecture, weights);
  if (!merger.merge(locations, SEED)) throw new Error("the adapter cannot be merged into these weights");
  merger.free();
  return { locations, free: () => arena.free() };
}
