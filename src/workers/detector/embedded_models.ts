/** The detectors inside the executable: weights and calibration, by the name they are asked for. */
import type { ModelName } from "../protocol_detector.ts";

export type EmbeddedModel = { weights: string; calibration: string };

export const EMBEDDED: Readonly<Partial<Record<ModelName, EmbeddedModel>>> = {};
