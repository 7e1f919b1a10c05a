/**
 * Finds the detectors: weights, and the calibration beside them. A missing or broken model does not affect the others.
 */

import { join } from "node:path";
import { z } from "zod";
import { errorText } from "../../lib/error_text.ts";
import { MODELS, type ModelName } from "../protocol_detector.ts";
import { Calibration, type Mix } from "./calibration.ts";
import { EMBEDDED, EMBEDDED_WHOLE, type StoredModel } from "./embedded_models.ts";
import { type LaneModel, type Network, WHOLE } from "./messages.ts";

export type Model = {
  weights: Uint8Array;
  calibration: Calibration;
  /** SHA-256 of the weights before any adaptation, and of the network for whole images if the model uses it. */
  base: string;
  /** The output with the features, if they are wanted. */
  features?: string;
};
export type Models = {
  found: Map<ModelName, Model>;
  /** Reasons why other models are unusable. */
  errors: Map<ModelName, string>;
  /** Weights of the network for whole images, if a model uses it. */
  whole?: Uint8Array;
};

/** `dir` replaces the models inside the executable. */
export async function findModels(dir: string | undefined): Promise<Models> {
  const models: Models = { found: new Map(), errors: new Map() };
  for (const name of MODELS) {
    try {
      models.found.set(name, await readModel(dir === undefined ? embedded(name) : await inDirectory(dir, name)));
    } catch (error) {
      models.errors.set(name, reason(error));
    }
  }
  if (usersOfWhole(models).length > 0) await addWhole(models, dir);
  return models;
}

async function addWhole(models: Models, dir: string | undefined) {
  try {
    models.whole = await Bun.file(dir === undefined ? EMBEDDED_WHOLE : join(dir, `${WHOLE}.onnx`)).bytes();
  } catch (error) {
    return lose(models, WHOLE, reason(error));
  }
  const hash = sha256(models.whole);
  for (const [name, model] of usersOfWhole(models)) {
    const { crops, whole, bias } = model.calibration.whole;
    models.found.set(name, { ...model, base: sha256([model.base, hash, crops, whole, bias].join(" ")) });
  }
}

type UserOfWhole = Model & { calibration: { whole: Mix } };
const usersOfWhole = ({ found }: Models) =>
  [...found].filter((entry): entry is [ModelName, UserOfWhole] => entry[1].calibration.whole !== undefined);

/** All networks that the models need. */
export function networksOf({ found, whole }: Models): LaneModel[] {
  const networks = [...found].map(([name, { weights, features }]) => ({
    name,
    weights,
    ...(features === undefined ? {} : { features }),
  }));
  return whole ? [...networks, { name: WHOLE, weights: whole }] : networks;
}

/** Removes a network that cannot be used, and with the one for whole images every model that needs it. */
export function lose(models: Models, network: Network, error: string) {
  const names = network === WHOLE ? usersOfWhole(models).map(([name]) => name) : [network];
  for (const name of names) {
    models.found.delete(name);
    models.errors.set(
      name,
      network === WHOLE ? `${name} needs ${WHOLE}.onnx for whole images, which cannot be used: ${error}` : error,
    );
  }
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

const sha256 = (content: Uint8Array | string) => new Bun.CryptoHasher("sha256").update(content).digest("hex");
const reason = (error: unknown) => errorText(error);
