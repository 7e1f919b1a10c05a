/** Lanes by themselves: a run that takes too long cannot be mended, and the process has to know. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { openLanes } from "../../src/workers/detector/lanes.ts";
import { findModels } from "../../src/workers/detector/models.ts";
import { tempDir, until } from "../harness.ts";
import { FAKES, writeModels } from "./fake_models.ts";

const BYTES = 256 * 256 * 3;

test("a run past its time is told once, as the end of all", async () => {
  const models = await findModels(writeModels(join(tempDir(), "models"), FAKES));
  const told: string[] = [];
  const lanes = await openLanes({
    dataDir: tempDir(),
    threads: 1,
    models,
    runLimitMs: 0,
    onFatal: ({ message }) => void told.push(message),
  });
  try {
    const part = { models: ["detector_v0" as const], input: new Uint8Array(60 * BYTES), count: 60 };
    const results = await lanes.score(part, new AbortController().signal);
    expect(results.detector_v0).toMatchObject({ logits: expect.any(Float32Array) });
    await until("it to be told", () => told.length > 0);
    expect(told).toEqual(["A lane took longer than 0 ms"]);
  } finally {
    lanes.close();
  }
});
