/** The detectors inside the executable, by the name they are asked for. */
import type { ModelName } from "../protocol_detector.ts";

export type StoredModel = {
  /** Path of the ONNX file, which may be inside the executable. */
  weights: string;
  /** What lies beside it, as it was parsed. */
  calibration: unknown;
};

export const EMBEDDED: Readonly<Partial<Record<ModelName, StoredModel>>> = {};
