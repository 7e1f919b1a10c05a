/** Changes loaded models: by the adaptation of this lab, or so that they also return features. */
import {
  type Adaptation,
  type AdaptedModel,
  adaptedVersion,
  READ_BYTES,
  readAdaptation,
  unpackFloats,
} from "../../../lib/detection/adaptation.ts";
import type { Calibration } from "../calibration.ts";
import type { Models } from "../models.ts";
import { findHead, type HeadChange, withHead, withOutput } from "./head.ts";

/** Applies the file to the models that it was made for. A model with other weights stays as it is, and the log says so. */
export async function applyAdaptation({ found }: Models, path: string): Promise<void> {
  const { number, models } = await readFile(path);
  for (const [name, model] of found) {
    const adapted = models[name];
    if (!adapted) continue;
    if (adapted.base !== model.base) {
      console.error(`Adaptation ${number} was made for another version of ${name}, so it is not used`);
      continue;
    }
    const { head, temperature, isotonic } = adapted;
    const version = adaptedVersion(model.calibration.version, number);
    const weights = head ? withHead(model.weights, changeOf(head, model.calibration)) : model.weights;
    // The curves by kind and the tier were proven without the adaptation.
    const { kinds: _kinds, tiers: _tiers, ...rest } = model.calibration;
    found.set(name, { ...model, weights, calibration: { ...rest, version, temperature, isotonic } });
  }
}

/** The file says how the logit of the image changes. The last layer makes the part of the crops, which is multiplied. */
function changeOf({ weight, bias }: NonNullable<AdaptedModel["head"]>, { whole }: Calibration): HeadChange {
  const factor = whole?.crops ?? 1;
  return { weight: unpackFloats(weight).map((amount) => amount / factor), bias: bias / factor };
}

async function readFile(path: string): Promise<Adaptation> {
  const fix = "Run verk detect adapt --reset, or adapt again.";
  const bytes = await Bun.file(path)
    .slice(0, READ_BYTES)
    .bytes()
    .catch((error: Error) => Promise.reject(new Error(`The adaptation cannot be read: ${error.message}. ${fix}`)));
  try {
    return readAdaptation(bytes);
  } catch (error) {
    throw new Error(`The adaptation ${path} is damaged: ${(error as Error).message}. ${fix}`);
  }
}

/** Models whose calibration reads features return them; `all`: all models that have a last layer. */
export function exposeFeatures({ found, errors }: Models, all: boolean): void {
  for (const [name, model] of found) {
    const { kinds, unlike } = model.calibration;
    const needed = kinds !== undefined || unlike !== undefined;
    const head = needed || all ? findHead(model.weights) : undefined;
    if (head) found.set(name, { ...model, weights: withOutput(model.weights, head.features), features: head.features });
    else if (needed) {
      found.delete(name);
      errors.set(name, "The calibration has kinds or unlike, but the model has no last layer to read features from");
    }
  }
}
