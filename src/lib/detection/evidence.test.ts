import { describe, expect, test } from "bun:test";
import { declarationOf, type Evidence, summaryOf } from "./evidence.ts";
import { ensembleOf } from "./tiers.ts";

const nothing: Evidence = { c2pa: null, metadata: { camera: null, generator: null } };
const signed = (more: object = {}, signature: object = {}): Evidence => ({
  ...nothing,
  c2pa: {
    hash_valid: true,
    digital_source_type: "trainedAlgorithmicMedia",
    source_signed: true,
    generator: "Maker",
    signature: { valid: true, trusted: null, signer: "Maker Ltd", ...signature },
    ...more,
  },
});
const written = (metadata: object): Evidence => ({ ...nothing, metadata: { ...nothing.metadata, ...metadata } });
const marked: Evidence = { ...nothing, watermark: { generator: "FLUX" } };

describe("a declaration", () => {
  test.each<[string, Evidence, string, number]>([
    ["nothing", nothing, "none", 0],
    ["a camera", written({ camera: "Canon EOS R5" }), "none", 0],
    ["a real source type", signed({ digital_source_type: "digitalCapture" }), "none", 0],
    ["a signature", signed(), "signed", 0.95],
    ["a trusted signature", signed({}, { trusted: true }), "signed", 0.95],
    ["a signature that the list does not trust", signed({}, { trusted: false }), "metadata", 0.85],
    ["a manifest of another file", signed({ hash_valid: false }), "metadata", 0.85],
    ["a manifest without a valid signature", signed({ source_signed: false }), "metadata", 0.85],
    ["a watermark", marked, "watermark", 0.95],
    ["a generator in the metadata", written({ generator: "ComfyUI" }), "metadata", 0.85],
    ["a source type in the metadata", written({ digital_source_type: "trainedAlgorithmicMedia" }), "metadata", 0.85],
    ["generated parts", signed({ digital_source_type: "compositeWithTrainedAlgorithmicMedia" }), "signed", 0.6],
    [
      "generated parts in the metadata",
      written({ digital_source_type: "compositeWithTrainedAlgorithmicMedia", generator: "Google AI" }),
      "metadata",
      0.6,
    ],
  ])("%s", (_name, evidence, declared, least) => {
    expect(declarationOf(evidence)).toMatchObject({ declared, least });
  });

  test("sets the lowest score, whatever the models say, and the reason says so", () => {
    for (const score of [0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99]) {
      const models = { a: { score, status: "success", unlike: score === 0.5 } };
      for (const [signals, least] of [
        [signed(), 0.95],
        [marked, 0.95],
        [written({ generator: "x" }), 0.85],
      ] as const) {
        const ensemble = ensembleOf({ models, signals })!;
        expect(ensemble).toMatchObject({ prediction: "ai", isFake: true, score: Math.max(score, least) });
        expect(ensemble.pixelScore).toBe(score);
        if (score < least) expect(ensemble.reason).toContain(`at least ${least}`);
        else expect(ensemble.reason).toBeNull();
      }
      expect(ensembleOf({ models, signals: written({ camera: "Canon" }) })).toEqual(ensembleOf({ models })!);
    }
  });
});

test("the summary keeps apart what is proven, claimed and guessed", () => {
  expect(summaryOf(nothing, "likely_real")).toBe(
    "Proven: nothing; claimed: nothing; guessed: the models lean to real.",
  );
  expect(summaryOf(marked, "ai")).toBe(
    "Proven: a watermark of FLUX; claimed: nothing; guessed: the models say generated.",
  );
  expect(summaryOf(signed(), "real")).toContain(
    "Proven: nothing; claimed: generated with Maker, signed by Maker Ltd (no trust list to check);",
  );
  expect(summaryOf(signed({}, { trusted: true }), "real")).toContain(
    "Proven: a signature of Maker Ltd on the trust list; claimed: generated with Maker;",
  );
  expect(summaryOf(signed({}, { trusted: false }), "real")).toContain("signed by Maker Ltd (not on the trust list);");
  expect(summaryOf(written({ camera: "Canon EOS R5" }), "uncertain")).toContain("claimed: taken with Canon EOS R5;");
});
