import { expect, test } from "bun:test";
import type { Scored } from "../../workers/protocol_detector.ts";
import type { Outcome } from "./detector.ts";
import { count, headerOf, jsonOf, lineOf, newCounts, summaryOf } from "./report.ts";

type ReportedOutcome = Exclude<Outcome, { status: "left_out" }>;

const scored: Scored = {
  media: { kind: "image", format: "jpeg", width: 640, height: 480, frames: 1 },
  models: {
    detector_v0: { score: 0.9, status: "success", latency_ms: 3, error: null },
    detector_v1: { score: null, status: "error", latency_ms: 1, error: "broke" },
  },
  versions: { detector_v0: "1", detector_v1: "1" },
  signals: {
    c2pa: {
      present: true,
      hash_valid: false,
      claim_generator: "Maker\u001b[31m/1.0",
      digital_source_type: "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia",
      signature: { valid: true, trusted: false, signer: "Maker\u001b", problem: "expired" },
    },
    metadata: { software: null, camera: null, generator: "Diffuser" },
    robustness: { lowest: 0.4, highest: 0.9, views: [{ view: "jpeg_60", score: 0.4 }], flips: true },
  },
};
const outcome: ReportedOutcome = {
  file: "a\nb.jpg",
  status: "scored",
  scored,
  ensemble: {
    prediction: "ai",
    verdict: "ai_generated",
    isFake: true,
    confidence: 0.8,
    score: 0.9,
    pixelScore: 0.9,
    declared: "metadata",
    succeeded: 1,
    total: 2,
    reason: null,
  },
  hash: "ab",
  sizeBytes: 5,
  ms: 7,
};
const failed: ReportedOutcome = {
  file: "x.png",
  status: "failed",
  code: "INVALID_IMAGE",
  error: "The image has no pixels",
};
const columns = { models: ["detector_v0", "detector_v1", "detector_audio_v0"], robustness: true } as const;

test("a line has the score, what it means, each model's, the range and what the file says of itself", () => {
  expect(headerOf(columns)).toBe("SCORE  PREDICTION   detector_v0  detector_v1  OVER RE-ENCODES    FILE");
  expect(lineOf(outcome, columns)).toBe(
    "0.900  ai           0.900        -            0.400–0.900 flips  a\ufffdb.jpg  " +
      "[C2PA: Maker\ufffd[31m/1.0, trainedAlgorithmicMedia, signed by Maker\ufffd, not trusted (expired), but the content was changed]  [metadata: Diffuser]",
  );
  expect(lineOf(failed, columns)).toBe(
    "-      error        -            -            -                  x.png: The image has no pixels",
  );
});

test("one model's score stands once", () => {
  const one = { models: ["detector_v0"], robustness: false } as const;
  expect(headerOf(one)).toBe("SCORE  PREDICTION   FILE");
  expect(lineOf(failed, one)).toBe("-      error        x.png: The image has no pixels");
});

test("as JSON it is what the API answers, with the file and without what only a server has", () => {
  const json = jsonOf(outcome, 0.95, 0);
  expect(json).toMatchObject({
    file: "a\nb.jpg",
    prediction: "ai",
    ensemble_score: 0.9,
    models_succeeded: 1,
    model_results: { detector_v0: { score: 0.9 }, detector_v1: { score: 0.5, status: "error", error: "broke" } },
    aboveThreshold: false,
    imageHash: "ab",
    image: { width: 640, sizeBytes: 5 },
    timestamp: "1970-01-01T00:00:00.000Z",
  });
  for (const key of ["id", "cached", "feedback"]) expect(json).not.toHaveProperty(key);
  expect(jsonOf(failed, 0.5, 0)).toEqual({ file: "x.png", error: "The image has no pixels", code: "INVALID_IMAGE" });
});

test("the last line says how many there were of each", () => {
  const counts = newCounts();
  expect(summaryOf(counts)).toBe("no file scored");
  for (const each of [outcome, outcome, failed, { file: "n", status: "left_out" } as const]) count(counts, each, 0.9);
  expect(summaryOf(counts)).toBe("2 scored: 2 ai; 1 failed; 1 of other types skipped");
  expect(counts.above).toBe(2);
});
