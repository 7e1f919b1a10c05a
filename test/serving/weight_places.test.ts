import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { TYPE } from "../../src/native/ggml/ggml.ts";
import { weightPlaces } from "../../src/native/llama/weights.ts";
import { openEngine } from "../../src/workers/serving/engine/engine.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test("the weights of a loaded model are found by their names", async () => {
  const shape = { layers: 2, width: 64, heads: 4, kvHeads: 2, ff: 96, context: 64 };
  const modelPath = makeModel(dir, { arch: "llama", type: "F16", ...shape });
  const engine = await openEngine({ dataDir: dir, modelPath, contextLength: 64, parallel: 1, threads: 1, gpus: [] });
  const locations = weightPlaces(dir, engine.model, { cuda: false });
  const found = locations("blk.1.ffn_down.weight");
  expect(found).toMatchObject({ type: TYPE.F16, columns: 96, rows: 64, onDevice: false });
  expect(found!.address).toBeGreaterThan(0);
  expect(locations("blk.2.ffn_down.weight")).toBeNull();
  await engine.close();
});
