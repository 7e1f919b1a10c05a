/** Changes loaded models: by the adaptation of this lab, or so that they also return features. */
import { z } from "zod";
import { Adaptation, adaptedVersion, unpackFloats } from "../../../lib/detection/adaptation.ts";
import type { Model, Models } from "../models.ts";
import { findHead, withHead, withOutput } from "./head.ts";

/** Applies the file to the models that it was made for. A model with other weights stays as it is, and the log says so. */
export async function applyAdaptation({ found }: Models, path: string): Promise<void> {
  const { number, models } = await readAdaptation(path);
  for (const [name, model] of found) {
    const adapted = models[name];
    if (!adapted) continue;
    if (adapted.base !== model.base) {
      console.error(`Adaptation ${number} was made for another version of ${name}, so it is not used`);
      continue;
    }
    const { head, temperature, isotonic } = adapted;
    const version = adaptedVersion(model.calibration.version, number);
    const weights = head ? withHead(model.weights, { ...head, weight: unpackFloats(head.weight) }) : model.weights;
    found.set(name, { ...model, weights, calibration: { ...model.calibration, version, temperature, isotonic } });
  }
}

async function readAdaptation(path: string): Promise<Adaptation> {
  const fix = "Run verk detect adapt --reset, or adapt again.";
  const text = await Bun.file(path)
    .text()
    .catch((error: Error) => Promise.reject(new Error(`The adaptation cannot be read: ${error.message}. ${fix}`)));
  try {
    return Adaptation.parse(JSON.parse(text));
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : (error as Error).message;
    throw new Error(`The adaptation ${path} is damaged: ${why}. ${fix}`);
  }
}

/** Features are means over crops, so they can replace crops only where the logits are averaged too. */
export function exposeFeatures({ found }: Models): void {
  for (const [name, model] of found) found.set(name, exposed(model));
}

function exposed(model: Model): Model {
  const head = model.calibration.pooling.kind === "mean" ? findHead(model.weights) : undefined;
  return head ? { ...model, weights: withOutput(model.weights, head.features), features: head.features } : model;
}
