import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../test/harness.ts";
import { closeDb, openDb } from "./db/db.ts";
import { allSeries, counter, forget, histogram, isDirty, MOST_SERIES, restore } from "./metrics.ts";

const dir = tempDir();
const dbs = ["one", "two", "three", "four"].map((name) => openDb({ path: join(dir, name) }));
const [db, second, third, fourth] = dbs as [
  (typeof dbs)[0] & {},
  (typeof dbs)[0] & {},
  (typeof dbs)[0] & {},
  (typeof dbs)[0] & {},
];
afterAll(() => {
  for (const each of dbs) closeDb(each);
  rmSync(dir, { recursive: true, force: true });
});

const things = counter("test_things_total", "Things", ["kind"]);
const times = histogram("test_seconds", "Times", [], [1, 2]);

test("a counter counts by workspace and label, for each database alone", () => {
  things.add(db, "ws_1", ["a"]);
  things.add(db, "ws_1", ["a"], 2);
  things.add(db, "ws_2", ["a"]);
  const numbers = allSeries(db, "test_things_total").map(({ workspaceId, labels, counted }) => [
    workspaceId,
    ...labels,
    ...counted,
  ]);
  expect(numbers).toEqual([
    ["ws_1", "a", 3],
    ["ws_2", "a", 1],
  ]);
  expect(allSeries(second, "test_things_total")).toEqual([]);
  expect(() => counter("test_things_total", "Again", [])).toThrow("Two families");
});

test("a value lies in the first bucket that reaches it, and beyond all of them in the last", () => {
  for (const value of [0, 1, 1.5, 2, 3, 100]) times.observe(db, "", [], value);
  expect(allSeries(db, "test_seconds")[0]?.counted).toEqual([107.5, 2, 2, 2]);
});

test("a family that is full counts the rest as other, and is restored as it was", () => {
  for (let i = 0; i < MOST_SERIES + 50; i++) things.add(third, "ws_1", [`k${i}`]);
  const all = allSeries(third, "test_things_total");
  expect(all).toHaveLength(MOST_SERIES + 1);
  expect(all.at(-1)).toMatchObject({ workspaceId: "", labels: ["other"], counted: [50] });
  const kept = all.map(({ workspaceId, labels, counted }) => ({
    name: "test_things_total",
    workspaceId,
    labels,
    counted,
  }));
  for (const each of kept.toReversed()) restore(fourth, each); // `other` first
  const again = allSeries(fourth, "test_things_total");
  expect(again.map(({ counted }) => counted[0]).reduce((a = 0, b = 0) => a + b)).toBe(MOST_SERIES + 50);
  expect(again.filter(isDirty)).toEqual([]);
  things.add(fourth, "ws_9", ["new"]);
  expect(again[0]?.counted).toEqual([51]);
});

test("what was counted before it is restored is not lost, and what no longer fits is left alone", () => {
  things.add(second, "ws_1", ["a"]);
  restore(second, { name: "test_things_total", workspaceId: "ws_1", labels: ["a"], counted: [10] });
  restore(second, { name: "test_things_total", workspaceId: "ws_1", labels: ["a", "b"], counted: [10] });
  restore(second, { name: "gone_total", workspaceId: "ws_1", labels: [], counted: [10] });
  times.observe(second, "ws_1", [], 1);
  restore(second, { name: "test_seconds", workspaceId: "ws_1", labels: [], counted: [1, 1] }); // other buckets
  expect(allSeries(second, "test_things_total").map((s) => [s.counted, s.stored])).toEqual([[[11], [10]]]);
  expect(allSeries(second, "test_seconds")[0]?.counted).toEqual([1, 1, 0, 0]);
  forget(second, new Set(["ws_1"]));
  expect(allSeries(second, "test_things_total")).toEqual([]);
});
