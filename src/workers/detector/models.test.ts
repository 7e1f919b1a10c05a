import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../test/harness.ts";
import { MODELS } from "../protocol_detector.ts";
import { findModels, networksOf } from "./models.ts";

const DIR = join(import.meta.dir, "../../../models/detector");

test("every detector of the folder models is embedded whole, and other models are reported by name", async () => {
  const files = readdirSync(DIR).filter((name) => /^detector_.*\.onnx$/.test(name));
  const models = await findModels(undefined);
  const { found, errors } = models;
  const networks = networksOf(models);
  expect(networks.map(({ name }) => `${name}.onnx`).sort()).toEqual(files.sort());
  for (const { name, weights } of networks) expect(weights).toEqual(await Bun.file(join(DIR, `${name}.onnx`)).bytes());
  for (const name of MODELS.filter((each) => !found.has(each)))
    expect(errors.get(name)).toBe(`This build of verk does not contain ${name}`);
});

test("an own folder without files fails each model alone, and the error names the folder", async () => {
  const dir = tempDir();
  await Bun.write(join(dir, "detector_v0.json"), "{}");
  const { found, errors } = await findModels(dir);
  expect([found.size, [...errors.keys()]]).toEqual([0, [...MODELS]]);
  expect(errors.get("detector_v0")).toContain("calibration is invalid");
  expect(errors.get("detector_v1")).toContain("detector_v1.json");
});
