/** The armed watch of turns (test/long_turns.ts) finds work that keeps the event loop, names it and shows where it was. */
import { expect, test } from "bun:test";
import { HOUR_MS } from "../../src/lib/units.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { createLog, silentLog } from "../../src/platform/log.ts";
import { startLoop } from "../../src/platform/loop.ts";
import { hotPath, type StackSample } from "../../src/platform/stack_samples.ts";
import { LONG_TURN, reportTo } from "../../src/platform/turn_report.ts";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { until } from "../harness.ts";
import { isFault, isServerSample, noteLongTurns, takeLongTurns } from "../long_turns.ts";

const sampleOf = (...urls: string[]): StackSample => ({
  timestamp: 0,
  frames: urls.map((url, i) => ({ name: `f${i}`, sourceURL: `/x/${url}` })),
});

test.each([
  ["a request", true, ["src/lib/a.ts", "src/resources/a/service.ts", "src/http/server.ts", "test/harness.ts"]],
  ["a tick", true, ["src/resources/a/sweep.ts", "src/platform/loop.ts"]],
  ["work after a promise", true, ["node_modules/zod/a.js", "src/resources/a/service.ts"]],
  ["the test", false, ["test/harness.ts"]],
  ["a function that the test calls", false, ["src/resources/a/service.ts", "src/resources/a/a.test.ts"]],
  ["a function of the test that the server calls", false, ["test/fake.ts", "src/http/server.ts", "test/harness.ts"]],
  ["the code of a worker", false, ["src/lib/a.ts", "src/workers/trainer/a.ts"]],
  ["what a worker shares with the server", false, ["src/platform/a.ts", "src/workers/connector/a.ts"]],
])("samples of %s count as the server's: %p", (_name, counts, urls) => {
  expect(isServerSample(sampleOf(...urls))).toBe(counts);
});

/** Work of the server that nothing interrupts. It is bound, so that no function of this file is on the stack. */
const manyUrls = Array.from({ length: 50 }, (_, i) => `src/resources/a/${i}.ts`);
const endless = hotPath.bind(
  undefined,
  Array.from({ length: 20_000 }, () => sampleOf(...manyUrls)),
) as unknown as () => void;

test("a tick that keeps the event loop is found, with the name of the loop and its stack", async () => {
  const loop = startLoop(
    { name: "endless", schedule: { everyMs: HOUR_MS }, tick: endless },
    { log: silentLog, clock: systemClock },
  );
  const turns = await until("the tick to be found", () => {
    const taken = takeLongTurns();
    return taken.length > 0 ? taken : undefined;
  });
  await loop.stop();
  expect(turns.join()).toContain("after loop endless");
  expect(turns.join()).toContain("hotPath (src/platform/stack_samples.ts)");
});

test("the way that most samples share is shown from the inside out, with shares", () => {
  const samples = [...Array(3).fill(sampleOf("src/b.ts", "src/a.ts")), sampleOf("src/c.ts", "src/a.ts")];
  expect(hotPath(samples)).toEqual(["f0 (src/b.ts) 75%", "f1 (src/a.ts) 100%"]);
  expect(hotPath([])).toEqual([]);
});

test("a cause has one line a minute, and the next line counts what was not shown", () => {
  const lines: string[] = [];
  let now = 0;
  const report = reportTo(createLog({ write: (line) => void lines.push(line) }), () => now);
  const turn = { ms: 300, systemMs: 20, ended: 0, begun: 1, underWay: ["GET /a"], samples: [sampleOf("src/a.ts")] };
  for (const last of ["GET /a", "GET /a", "GET /b", "GET /a"]) report({ ...turn, last });
  now = 60_000;
  report({ ...turn, last: "GET /a" });
  const shown = lines.map((line) => JSON.parse(line));
  expect(shown.map(({ last_begun, not_shown }) => [last_begun, not_shown])).toEqual([
    ["GET /a", undefined],
    ["GET /b", undefined],
    ["GET /a", 2],
  ]);
  expect(shown[0]).toMatchObject({ level: "warn", msg: LONG_TURN, ms: 300, stack: ["f0 (src/a.ts) 100%"] });
});

test("the executable warns of a long turn with its route and its stack, and counts it", async () => {
  const server = await startBinary({
    env: { VERK_WATCHDOG__TURN_MS: "4", VERK_WATCHDOG__SAMPLING: "after_long_turn" },
  });
  const warnings = () =>
    server
      .stderr()
      .split("\n")
      .filter((line) => line.includes(LONG_TURN))
      .map((line) => JSON.parse(line) as { ms: number; last_begun: string; stack: string[] });
  const line = await until("a warning with a stack", async () => {
    await server.call("POST", "/v1/datasets", { rows: Array.from({ length: 5_000 }, (_, i) => ({ prompt: `p${i}` })) });
    return warnings().find(({ last_begun, stack }) => last_begun === "POST /v1/datasets" && stack.length > 0);
  });
  expect(line.ms).toBeGreaterThanOrEqual(4);
  const scraped = await until("the counters to be stored", async () => {
    const { key } = await makeKey(server.dir, "--scope", "admin");
    const answer = await fetch(`${server.url}/v1/metrics`, { headers: { authorization: `Bearer ${key}` } });
    return (await answer.text()).match(/verk_event_loop_turn_seconds_count\S* (\d+)/)?.[1];
  });
  expect(Number(scraped)).toBeGreaterThan(0);
  await server.kill();
  takeLongTurns(); // caused on purpose
});

test("the kernel's time does not count in a turn in which a worker ended", () => {
  const line = (more: object) => JSON.stringify({ msg: LONG_TURN, ms: 900, last_begun: "GET /a", ...more });
  const labels = new Set(["GET /a"]);
  noteLongTurns(line({ system_ms: 880, ended_workers: 1 }), labels);
  expect(takeLongTurns()).toEqual([]);
  noteLongTurns(line({ system_ms: 880, ended_workers: 0 }), labels);
  noteLongTurns(line({ system_ms: 10, ended_workers: 1 }), labels);
  expect(takeLongTurns()).toHaveLength(2);
});

test("the first long turn of a label may compile, the next may not", () => {
  const labels = new Set<string>();
  expect([149, 49, 50].map((ms) => isFault(labels, "GET /a", ms))).toEqual([false, false, true]);
  expect(isFault(labels, "GET /b", 150)).toBe(true);
});
