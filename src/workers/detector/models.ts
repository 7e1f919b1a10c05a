/** Finds the detectors: weights, and the calibration beside them. One that is missing or broken costs only itself. */
import { join } from "node:path";
import { z } from "zod";
import { MODELS, type ModelName } from "../protocol_detector.ts";
import { Calibration } from "./calibration.ts";
import { EMBEDDED, type StoredModel } from "./embedded_models.ts";

export type Model = { weights: Uint8Array; calibration: Calibration };
export type Models = {
  found: Map<ModelName, Model>;
  /** Why the others are not. */
  errors: Map<ModelName, string>;
};

/** `dir`: instead of those inside the executable. */
export async function findModels(dir: string | undefined): Promise<Models> {
  const models: Models = { found: new Map(), errors: new Map() };
  for (const name of MODELS) {
    try {
      models.found.set(name, await readModel(dir === undefined ? embedded(name) : await inDirectory(dir, name)));
    } catch (error) {
      models.errors.set(name, error instanceof Error ? error.message : String(error));
    }
  }
  return models;
}

const inDirectory = async (dir: string, name: ModelName): Promise<StoredModel> => ({
  weights: join(dir, `${name}.onnx`),
  calibration: await Bun.file(join(dir, `${name}.json`)).json(),
});

function embedded(name: ModelName): StoredModel {
  const model = EMBEDDED[name];
  if (!model) throw new Error(`This build of verk carries no ${name}`);
  return model;
}

async function readModel({ weights, calibration }: StoredModel): Promise<Model> {
  const parsed = Calibration.safeParse(calibration);
  if (!parsed.success) throw new Error(`Its calibration is damaged: ${z.prettifyError(parsed.error)}`);
  return { weights: await Bun.file(weights).bytes(), calibration: parsed.data };
}
