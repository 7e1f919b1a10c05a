/** A model that only scores, such as the reference of a training of all weights. */
import { readModelFile } from "../model_file.ts";
import { loadModel } from "./model.ts";
import { Passes } from "./passes.ts";
import { planMicro } from "./plan.ts";
import type { ModelOptions, Piece, Scores } from "./types.ts";

export type FrozenModel = { score: (pieces: readonly Piece[]) => Promise<Scores[]>; close: () => void };

export async function openFrozen(options: ModelOptions): Promise<FrozenModel> {
  const loaded = loadModel(options, await readModelFile(options.modelPath), null);
  const { architecture } = loaded.model;
  const plan = planMicro(options, null, { architecture, header: loaded.file.header, isFused: loaded.isFused });
  const passes = new Passes(loaded, plan, options);
  return {
    score: (pieces) => passes.score(pieces, { reference: true }),
    close() {
      passes.free();
      loaded.free();
    },
  };
}
