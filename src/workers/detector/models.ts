/**
 * Finds the detectors: weights, and the calibration beside them. A missing or broken model does not affect the others.
 */
import { join } from "node:path";
import { z } from "zod";
import { Calibration } from "../../lib/detection/calibration.ts";
import { MODELS, type ModelName } from "../protocol_detector.ts";
import { EMBEDDED, type StoredModel } from "./embedded_models.ts";

export type Model = {
  weights: Uint8Array;
  calibration: Calibration;
  /** SHA-256 of the weights before any adaptation. */
  base: string;
  /** The output with the features, if they are wanted. */
  features?: string;
};
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
  const bytes = await Bun.file(weights).bytes();
  return { weights: bytes, calibration: parsed.data, base: sha256(bytes) };
}

const sha256 = (bytes: Uint8Array) => new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
