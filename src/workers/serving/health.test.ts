import { expect, test } from "bun:test";
import { type FakeEngine, fakeEngine } from "../../../test/serving/fake_engine.ts";
import type { EngineStats } from "./engine/types.ts";
import { checkHealth } from "./health.ts";

const never = new Promise(() => {});
/** `stats` replaces the figures of the engine. */
function engineWith(stats: Partial<EngineStats>, engine: FakeEngine = fakeEngine(() => ["x"])): FakeEngine {
  const own = engine.stats;
  return Object.assign(engine, { stats: () => ({ ...own(), ...stats }) });
}

test("S1 health: an idle engine decodes a probe", async () => {
  const engine = engineWith({ active: 0 });
  expect(await checkHealth(engine, 60_000)).toEqual({ decoded: true, decode_ms: expect.any(Number), running: null });
  expect(engine.requests).toHaveLength(1);
});

test("S1 health: a busy engine decodes no probe, and reports the call under way", async () => {
  const engine = engineWith({ active: 1, waiting: 99, running: { ageMs: 9_000, expectedMs: 8_000 } });
  expect(await checkHealth(engine, 1)).toEqual({
    decoded: false,
    decode_ms: null,
    running: { age_ms: 9_000, expected_ms: 8_000 },
  });
  expect(engine.requests).toEqual([]);
});

test("S1 health: a busy engine answers as soon as a decode call has returned", async () => {
  let calls = 0;
  const engine = fakeEngine(() => ["x"]);
  const own = engine.stats;
  engine.stats = () => ({ ...own(), active: 1, callsDone: calls++ });
  expect(await checkHealth(engine, 60_000)).toMatchObject({ decoded: true, decode_ms: null });
});

test("S1 health: a slow probe is not cut off, and the next check does not start another", async () => {
  const engine = fakeEngine(() => [never]);
  expect(await checkHealth(engine, 1)).toMatchObject({ decoded: false });
  expect(await checkHealth(engine, 1)).toMatchObject({ decoded: false });
  expect(engine.requests).toHaveLength(1);
});

test("S1 health: a probe that fails is an error", async () => {
  const engine = fakeEngine(() => [new Error("gpu fell off")]);
  expect(await checkHealth(engine, 60_000).catch(String)).toContain("did not decode a probe");
});
