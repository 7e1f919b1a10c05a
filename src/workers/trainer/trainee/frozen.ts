/** A model that only scores, such as the reference of a training of all weights. */
import type { Model } from "../engine/transformer.ts";
import { readModelFile } from "../model_file.ts";
import { loadModel } from "./model.ts";
import { Passes } from "./passes.ts";
import { planMicro } from "./plan.ts";
import type { ModelOptions, Piece, Scores } from "./types.ts";

export type FrozenModel = {
  readonly model: Model;
  /** Current memory: weights and the largest graph. */
  readonly bytes: number;
  score: (pieces: readonly Piece[]) => Promise<Scores[]>;
  /** Log-probabilities, and the inputs of the output layer: one row for each scored token. Needs `usesTape`. */
  states: Passes["states"];
  close: () => void;
};

export async function openFrozen(options: ModelOptions): Promise<FrozenModel> {
  const loaded = loadModel(options, await readModelFile(options.modelPath), null);
  const { architecture } = loaded.model;
  const plan = planMicro(options, null, { architecture, header: loaded.file.header, isFused: loaded.isFused });
  const passes = new Passes(loaded, plan, options);
  return {
    model: loaded.model,
    get bytes() {
      return loaded.bytes + passes.bytes;
    },
    states: (pieces) => passes.states(pieces),
    score: (pieces) => passes.score(pieces, { reference: true }),
    close() {
      passes.free();
      loaded.free();
    },
  };
}
