/** The weights of a sampler on the same device, into which the adapter of the trainee is merged. */
import type { WeightPlaces } from "../../../native/llama/weights.ts";
import { type Merger, openMerger } from "../engine/fused/sampler/merge.ts";
import type { Optimizer } from "../engine/optimizer.ts";
import type { Model } from "../engine/transformer.ts";

type Abilities = {
  /** True if the adapter can be merged into weights of half precision on the same device. */
  canMerge: boolean;
  /** True if passes forward are exact after `merge`. */
  isExact: boolean;
};

export class MergedSampler {
  readonly canMerge: boolean;
  readonly isExact: boolean;
  private merger: Merger | null = null;
  private mergedAt = -1; // the step of the weights at model.merged

  /** Writes `model.merged`, which exact graphs of the model multiply by. */
  constructor(
    private readonly model: Model,
    private readonly optimizer: Pick<Optimizer, "steps">,
    { canMerge, isExact }: Abilities,
  ) {
    this.canMerge = canMerge;
    this.isExact = isExact;
  }

  get bytes(): number {
    return this.merger?.bytes ?? 0;
  }

  /** Returns false if merging is impossible. `exact`: passes of an exact trainee multiply by these weights from here on. */
  merge(locations: WeightPlaces, exact: boolean): boolean {
    if (!this.canMerge) return false;
    const { architecture, weights } = this.model;
    const { steps } = this.optimizer;
    this.merger ??= openMerger(architecture, weights);
    const isMerged = this.merger.merge(locations, steps);
    if (!isMerged || !this.isExact || !exact) return isMerged;
    this.model.merged = locations;
    this.mergedAt = steps;
    return true;
  }

  /** Returns true if passes forward are exact. The sampler's weights are then those of the current step. */
  refresh(): boolean {
    const { merged } = this.model;
    if (!merged) return false;
    return this.mergedAt === this.optimizer.steps || this.merge(merged, true);
  }

  /** The adapter is another one from here on. */
  forget(): void {
    delete this.model.merged;
  }

  free(): void {
    this.merger?.free();
  }
}
