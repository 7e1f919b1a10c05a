/** Lanes by themselves: a run that takes too long cannot be mended, and the process has to know. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { openLanes } from "../../src/workers/detector/lanes.ts";
import { findModels } from "../../src/workers/detector/models.ts";
import { tempDir, until } from "../harness.ts";
import { FAKES, writeModels } from "./fake_models.ts";

const BYTES = 256 * 256 * 3;

test("a run past its time is reported once, as the end of all requests", async () => {
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

test("every crop gets its own answer, in order, for any number of crops", async () => {
  const models = await findModels(writeModels(join(tempDir(), "models"), FAKES));
  const lanes = await openLanes({ dataDir: tempDir(), threads: 1, models, runLimitMs: 60_000, onFatal: () => {} });
  try {
    for (const count of [1, 2, 5]) {
      const input = new Uint8Array(count * BYTES);
      for (let i = 0; i < count; i++) input.fill(i * 32, i * BYTES, (i + 1) * BYTES);
      const results = await lanes.score({ models: ["detector_v0"], input, count }, new AbortController().signal);
      const expected = Float32Array.from({ length: count }, (_, i) => i - 4);
      expect(results.detector_v0).toMatchObject({ logits: expected });
    }
  } finally {
    lanes.close();
  }
});

test("the buffer for a whole image is filled again, and shows nothing of the earlier image", async () => {
  const models = await findModels(writeModels(join(tempDir(), "models"), FAKES));
  const lanes = await openLanes({ dataDir: tempDir(), threads: 1, models, runLimitMs: 60_000, onFatal: () => {} });
  try {
    const first = lanes.room(6).fill(64);
    await lanes.score({ models: ["detector_v0"], input: first, count: 6 }, new AbortController().signal);
    expect(first.length).toBe(0); // it changed hands
    const again = lanes.room(6);
    expect([again.length, again[0]]).toEqual([6 * BYTES, 64]);
    expect(lanes.room(6)[0]).toBe(0);
    again.fill(160);
    const results = await lanes.score(
      { models: ["detector_v0"], input: again, count: 6 },
      new AbortController().signal,
    );
    expect(results.detector_v0).toMatchObject({ logits: new Float32Array(6).fill(1) });
  } finally {
    lanes.close();
  }
});
