/** Lanes by themselves: a run that takes too long cannot be mended, and the process has to know. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { ClientLeft } from "../../src/lib/net/client_left.ts";
import { exposeFeatures } from "../../src/workers/detector/adapted/apply.ts";
import { openLanes } from "../../src/workers/detector/lanes.ts";
import { findModels } from "../../src/workers/detector/models.ts";
import { tempDir, until } from "../harness.ts";
import { brightness, calibration, FAKES, green, wholeBrightness, writeModels } from "./fake_models.ts";

const BYTES = 256 * 256 * 3;
const never = () => new AbortController().signal;

/** Crops that differ in brightness. */
function shades(count: number): Uint8Array<ArrayBuffer> {
  const input = new Uint8Array(count * BYTES);
  for (let i = 0; i < count; i++) input.fill((i * 32) % 256, i * BYTES, (i + 1) * BYTES);
  return input;
}

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
      const results = await lanes.score({ models: ["detector_v0"], input: shades(count), count }, never());
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
    await lanes.score({ models: ["detector_v0"], input: first, count: 6 }, never());
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

describe("one request on idle lanes", () => {
  const models = ["detector_v0", "detector_v1"] as const;
  const openTwo = async (threads = 2) => {
    const whole = { ...calibration, whole: { crops: 1, whole: 1, bias: 0 } };
    const contents = {
      ...FAKES,
      detector_v0: { graph: green(1 / 32, -4) },
      detector_v1: { graph: brightness(1 / 64, -2), calibration: whole },
    };
    const found = await findModels(writeModels(join(tempDir(), "models"), contents, wholeBrightness(1, 0)));
    exposeFeatures(found, true);
    return await openLanes({ dataDir: tempDir(), threads, models: found, runLimitMs: 60_000, onFatal: () => {} });
  };

  test("is spread over them, with the results of a single lane", async () => {
    const [one, two] = await Promise.all([openTwo(1), openTwo(2)]);
    try {
      const answers = [];
      for (const lanes of [one, two]) answers.push(await lanes.score({ models, input: shades(6), count: 6 }, never()));
      const [single, spread] = answers.map((answer) => ({
        detector_v0: { ...answer.detector_v0, ms: 0 },
        detector_v1: { ...answer.detector_v1, ms: 0 },
      }));
      expect(single!.detector_v0).toMatchObject({
        logits: Float32Array.of(-4, -3, -2, -1, 0, 1),
        features: Float32Array.from([0, 32, 64, 96, 128, 160].flatMap((grey) => [grey, grey, grey])),
      });
      expect(spread).toEqual(single!);
      expect([one.stats, two.stats]).toEqual([
        { runs: 1, parts: 1, waiting: 0 },
        { runs: 3, parts: 1, waiting: 0 },
      ]);
    } finally {
      one.close();
      two.close();
    }
  });

  test("is not divided if every lane has a request of its own", async () => {
    const lanes = await openTwo();
    try {
      const busy = [lanes.readAudio(new Uint8Array(9), never()), lanes.readAudio(new Uint8Array(9), never())];
      const both = [0, 1].map(() => lanes.score({ models, input: shades(6), count: 6 }, never()));
      await Promise.allSettled(busy);
      await Promise.all(both);
      expect(lanes.stats).toEqual({ runs: 2, parts: 2, waiting: 0 });
    } finally {
      lanes.close();
    }
  });

  test("loses one network, and names it, if that cannot run", async () => {
    const lanes = await openTwo();
    try {
      const part = { models: ["detector_v0", "detector_audio_v0"] as const, input: shades(6), count: 6 };
      const results = await lanes.score(part, never());
      expect(results.detector_v0).toMatchObject({ logits: Float32Array.of(-4, -3, -2, -1, 0, 1) });
      expect(results.detector_audio_v0).toEqual({ error: expect.any(String), ms: expect.any(Number) });
    } finally {
      lanes.close();
    }
  });

  test("runs its whole image before shorter runs of its own, and overtakes no other request", async () => {
    const lanes = await openTwo();
    try {
      const waiting: Record<string, number> = {};
      const note = (name: string) => () => {
        waiting[name] = lanes.stats.waiting;
      };
      const whole = { models: ["detector_whole" as const], input: new Uint8Array(128 * 128 * 3), count: 1 };
      const signal = never();
      await Promise.all([
        lanes.score({ models, input: shades(60), count: 60 }, signal).then(note("crops")),
        lanes.score({ models: ["detector_v1"], input: shades(1), count: 1 }, never()).then(note("other")),
        lanes.score(whole, signal).then(note("own")),
      ]);
      expect(waiting["own"]).toBeGreaterThan(4);
      expect(waiting["other"]).toBe(0);
    } finally {
      lanes.close();
    }
  });

  test("leaves with all its portions, and its lanes go on", async () => {
    const lanes = await openTwo();
    try {
      const caller = new AbortController();
      const left = lanes.score({ models, input: shades(60), count: 60 }, caller.signal);
      const next = lanes.score({ models, input: shades(6), count: 6 }, never());
      expect(lanes.stats.waiting).toBe(20 + 10 - 2 + 1);
      caller.abort();
      expect(lanes.stats.waiting).toBe(1);
      expect(left).rejects.toThrow(ClientLeft);
      expect((await next).detector_v0).toMatchObject({ logits: Float32Array.of(-4, -3, -2, -1, 0, 1) });
      expect(lanes.stats.waiting).toBe(0);
    } finally {
      lanes.close();
    }
  });
});
