/** Passes over a loaded model, in micro-batches that fit the memory. Each rank of a training computes its share of them. */
import type { Batch, Graph, GraphShape } from "../engine/graph.ts";
import { gatherScores, shareOf } from "../ranks/spread_trainee.ts";
import { batchOf, cut, cutRows, type MicroBatch, microBatches } from "./batches.ts";
import { type Graphs, openGraphs } from "./graphs.ts";
import type { LoadedModel } from "./model.ts";
import type { MicroPlan } from "./plan.ts";
import type { Extras, ModelOptions, Piece, Scores } from "./types.ts";

/** `reference`: without the adapter. `exact`: with the weights of the sampler. */
export type ScoreOptions = { reference?: boolean; entropies?: boolean; exact?: boolean };

/** The work on one micro-batch. */
type Pass = {
  extras: Extras;
  shape: (micro: MicroBatch) => GraphShape;
  batch: (micro: MicroBatch) => Batch;
  /** Runs after the forward pass. */
  onScores?: (graph: Graph, micro: MicroBatch, scores: readonly Scores[]) => void;
};

export class Passes {
  private readonly graphs: Graphs;

  constructor(
    { model }: LoadedModel,
    readonly plan: MicroPlan,
    private readonly options: Pick<ModelOptions, "ranks" | "onTurn">,
  ) {
    this.graphs = openGraphs(model, plan.keptBytes);
  }

  /** Memory of the largest graph so far. */
  get bytes(): number {
    return this.graphs.largestBytes;
  }

  /** Frees the graphs. The next pass builds its own. */
  free(): void {
    this.graphs.free();
  }

  /** Returns the scores of each piece. */
  async score(pieces: readonly Piece[], options: ScoreOptions): Promise<Scores[]> {
    const { reference = false, entropies = false, exact = false } = options;
    const { plan } = this;
    const batches = microBatches(
      pieces.map((piece) => [piece]),
      plan.sizes,
    );
    const extras = { entropies, divergences: false };
    const ofRank = await this.run(batches, {
      extras,
      shape: (micro) => ({ ...plan.shape(micro, false), reference, entropies, exact }),
      batch: (micro) => batchOf(micro, null),
    });
    const scores = await this.gather(batches, ofRank, extras);
    const all: Scores[] = [];
    batches.forEach((micro, b) => {
      micro.pieces.forEach(({ unit }, i) => {
        all[unit] = scores[b]![i]!;
      });
    });
    return all;
  }

  /** Returns the scores of each piece, and the inputs of the output layer: one row for each scored token. All ranks compute all. */
  async states(pieces: readonly Piece[]): Promise<{ logps: Float32Array; states: Float32Array }[]> {
    const { plan } = this;
    const batches = microBatches(
      pieces.map((piece) => [piece]),
      plan.sizes,
    );
    const all: { logps: Float32Array; states: Float32Array }[] = [];
    for (const micro of batches) {
      await this.turn();
      const graph = this.graphs.get({ ...plan.shape(micro, false), reference: true, states: true });
      const logps = graph.forward(batchOf(micro, null));
      const states = graph.states();
      for (const piece of micro.pieces)
        all[piece.unit] = { logps: cut(logps, piece), states: cutRows(states, piece, states.length / logps.length) };
    }
    return all;
  }

  /** Runs the micro-batches of this rank and returns their scores. */
  async run(batches: readonly MicroBatch[], { extras, shape, batch, onScores }: Pass): Promise<Scores[][]> {
    const scores: Scores[][] = [];
    for (const micro of this.ownOf(batches)) {
      await this.turn();
      const graph = this.graphs.get(shape(micro));
      const logps = graph.forward(batch(micro));
      const entropies = extras.entropies ? graph.entropies() : null;
      const divergences = extras.divergences ? { divergences: graph.divergences() } : {};
      const ofPieces = scoresOf(micro, { logps, entropies, ...divergences });
      onScores?.(graph, micro, ofPieces);
      scores.push(ofPieces);
    }
    return scores;
  }

  /** Returns the scores of every micro-batch. `own`: those of this rank's, which are returned as they are. */
  async gather(batches: readonly MicroBatch[], own: Scores[][], extras: Extras): Promise<(readonly Scores[])[]> {
    const { ranks } = this.options;
    return ranks ? gatherScores(ranks, batches, { own, extras }) : own;
  }

  private ownOf(batches: readonly MicroBatch[]): readonly MicroBatch[] {
    const { ranks } = this.options;
    if (!ranks) return batches;
    const { from, to } = shareOf(ranks, batches)[ranks.index]!;
    return batches.slice(from, to);
  }

  /** Lets the event loop run after native code blocked the thread. */
  private async turn(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.options.onTurn?.();
  }
}

/** Limits entropies to the possible range: the device's are wrong if the target was nearly impossible. */
function scoresOf(micro: MicroBatch, { logps, entropies, divergences }: Scores): Scores[] {
  return micro.pieces.map((piece) => ({
    logps: cut(logps, piece),
    entropies: entropies && cut(entropies, piece).map((each) => Math.max(0, each)),
    ...(divergences ? { divergences: cut(divergences, piece) } : {}),
  }));
}
