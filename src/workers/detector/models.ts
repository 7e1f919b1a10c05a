/**
 * Finds the detectors: weights, and the calibration beside them. A missing or broken model does not affect the others.
 */
import { join } from "node:path";
import { z } from "zod";
import { MODELS, type ModelName } from "../protocol_detector.ts";
import { Calibration } from "./calibration.ts";
import { EMBEDDED, type StoredModel } from "./embedded_models.ts";

export type Model = { weights: Uint8Array; calibration: Calibration };
export type Models = {
  found: Map<ModelName, Model>;
  /** Reasons why other models are unusable. */
  errors: Map<ModelName, string>;
};

/** `dir` replaces the models inside the executable. */
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
  if (!model) throw new Error(`This build of verk does not contain ${name}`);
  return model;
}

async function readModel({ weights, calibration }: StoredModel): Promise<Model> {
  const parsed = Calibration.safeParse(calibration);
  if (!parsed.success) throw new Error(`The calibration is invalid: ${z.prettifyError(parsed.error)}`);
  return { weights: await Bun.file(weights).bytes(), calibration: parsed.data };
}
