/** A detector that runs already uses a new adaptation from the next file on. */
import { afterAll, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import sharp from "sharp";
import { openDetector } from "../../src/cli/detect/detector.ts";
import { packFloats } from "../../src/lib/detection/adaptation.ts";
import { loadConfig } from "../../src/platform/config/config.ts";
import { sha256File } from "../../src/platform/files.ts";
import { keep, reset } from "../../src/resources/detection/adaptation.ts";
import { tempDir } from "../harness.ts";
import { green, writeModels } from "./fake_models.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test("a new adaptation, one for other weights, and a reset", async () => {
  const models = writeModels(join(dir, "models"), { detector_v0: { graph: green(1 / 64, -2) } });
  const path = join(dir, "grey.png");
  const background = { r: 128, g: 128, b: 128 };
  writeFileSync(
    path,
    await sharp({ create: { width: 40, height: 40, channels: 3, background } })
      .png()
      .toBuffer(),
  );
  const config = loadConfig({ flags: { data_dir: dir, "detect.models_dir": models }, env: {} });
  const detector = await openDetector(config);
  const examine = async () => {
    const signal = new AbortController().signal;
    const outcome = await detector.examine(
      { path, named: true },
      { models: ["detector_v0"], robustness: false, heatmap: false, signal },
    );
    if (outcome.status !== "scored") throw new Error(JSON.stringify(outcome));
    return [outcome.ensemble.score.toFixed(3), outcome.scored.versions.detector_v0];
  };
  try {
    expect(await examine()).toEqual(["0.500", "fake-1"]);
    const base = await sha256File(join(models, "detector_v0.onnx"));
    const weight = packFloats(Float32Array.from([1 / 64, 0, 0])); // red counts too: the logit becomes 2
    const adapted = { base, head: { weight, bias: 0 }, temperature: 1, isotonic: [] };
    keep(dir, { detector_v0: adapted }, 0);
    expect(await examine()).toEqual(["0.881", "fake-1+adapted.1"]);
    keep(dir, { detector_v0: { ...adapted, base: "0".repeat(64) } }, 0);
    expect(await examine()).toEqual(["0.500", "fake-1"]);
    reset(dir);
    expect(await examine()).toEqual(["0.500", "fake-1"]);
  } finally {
    await detector.close();
  }
}, 60_000);
