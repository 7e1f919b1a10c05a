import { afterEach, expect, test } from "bun:test";
import { appendFileSync, existsSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../test/harness.ts";
import { openRecords } from "./records.ts";

const dirs: string[] = [];
const newDir = () => {
  const dir = tempDir();
  dirs.push(dir);
  return dir;
};
afterEach(() => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true });
});

const linesIn = (dir: string) =>
  readFileSync(join(dir, "records.ndjson"), "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
const openFiles = (dir: string) =>
  readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(dir);
    } catch {
      return false; // it was closed meanwhile
    }
  });
const DONE = { kind: "done", message: "", tail: "", killed: false };

test("records are lines with their time; after the end the reserve is given back and nothing is open", () => {
  const dir = newDir();
  const before = Date.now();
  const records = openRecords(dir);
  expect([statSync(join(dir, "reserve")).size, existsSync(join(dir, "ended"))]).toEqual([65_536, false]);
  records.add({ message: "é" });
  expect(linesIn(dir)).toEqual([{ time: expect.any(Number), message: "é" }]);
  expect(linesIn(dir)[0].time).toBeGreaterThanOrEqual(before);
  records.end(DONE);
  expect(linesIn(dir)[1]).toEqual({ time: expect.any(Number), exit: DONE });
  expect([existsSync(join(dir, "reserve")), existsSync(join(dir, "ended")), openFiles(dir)]).toEqual([false, true, []]);
  for (const name of ["records.ndjson", "ended"]) expect(statSync(join(dir, name)).mode & 0o777).toBe(0o600);
});

test("a restarted run goes on after its last whole record", () => {
  const dir = newDir();
  const first = openRecords(dir);
  first.add({ n: 1 });
  first.close();
  expect([openFiles(dir), existsSync(join(dir, "ended"))]).toEqual([[], false]);
  appendFileSync(join(dir, "records.ndjson"), '{"time":1,"n":'); // half a line of a supervisor that was killed
  const second = openRecords(dir);
  second.add({ n: 2 });
  second.close();
  expect(linesIn(dir).map(({ n }) => n)).toEqual([1, 2]);
  appendFileSync(join(dir, "records.ndjson"), '{"n":3}\n');
  openRecords(dir).close();
  expect(linesIn(dir).map(({ n }) => n)).toEqual([1, 2, 3]);
});
