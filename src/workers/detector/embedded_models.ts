/** The detectors inside the executable, by name. To add one, add its two files and a line below. */
import audioV0 from "../../../models/detector/detector_audio_v0.json";
import audioV0Weights from "../../../models/detector/detector_audio_v0.onnx" with { type: "file" };
import v0 from "../../../models/detector/detector_v0.json";
import v0Weights from "../../../models/detector/detector_v0.onnx" with { type: "file" };
import v1 from "../../../models/detector/detector_v1.json";
import v1Weights from "../../../models/detector/detector_v1.onnx" with { type: "file" };
import wholeWeights from "../../../models/detector/detector_whole.onnx" with { type: "file" };
import type { ModelName } from "../protocol_detector.ts";

export type StoredModel = {
  /** Path of the ONNX file, which may be inside the executable. */
  weights: string;
  /** The parsed calibration file beside it. */
  calibration: unknown;
};

/** Path of the network for whole images, which the image models share. */
export const EMBEDDED_WHOLE: string = wholeWeights;

export const EMBEDDED: Readonly<Partial<Record<ModelName, StoredModel>>> = {
  detector_v0: { weights: v0Weights, calibration: v0 },
  detector_v1: { weights: v1Weights, calibration: v1 },
  detector_audio_v0: { weights: audioV0Weights, calibration: audioV0 },
};
