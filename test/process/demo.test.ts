// tier: all (checks of a release)
/** `verk demo` by itself: it trains a model, which takes longer than all other commands together. */
import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { runVerk, spawnVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";

const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));

const home = (name: string) => {
  const dir = join(root, name);
  mkdirSync(dir);
  return { dir, env: { TMPDIR: dir } };
};

type Report = {
  ok: boolean;
  accuracy: { before: number; after: number };
  steps: { title: string; ok: boolean; detail: string }[];
};

test("walks every step, teaches the model its task, exits 0 and leaves nothing behind", async () => {
  const { dir, env } = home("whole");
  const { code, out, err } = await runVerk(["demo", "--json"], { cwd: root, env });
  const report = JSON.parse(out) as Report;
  expect(report.steps.filter(({ ok }) => !ok)).toEqual([]);
  expect([code, err, report.ok]).toEqual([0, "", true]);
  expect(report.accuracy.before).toBeLessThanOrEqual(0.5);
  expect(report.accuracy.after).toBeGreaterThanOrEqual(0.8);
  expect(readdirSync(dir)).toEqual([]);
}, 900_000);

test("prints the rows that it trains on", async () => {
  const { code, out } = await runVerk(["demo", "--rows"], { cwd: root });
  const rows = out
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { prompt: string; answer: number });
  expect(code).toBe(0);
  for (const { prompt, answer } of rows) expect([typeof prompt, typeof answer]).toEqual(["string", "number"]);
});

test("an interrupted demo ends its server and leaves nothing behind", async () => {
  const { dir, env } = home("interrupted");
  const child = spawnVerk(["demo"], { cwd: root, env });
  const [holder] = await until("its server to start", () => {
    const files = readdirSync(dir).map((name) => join(dir, name, "data/server.json"));
    return files.some((file) => existsSync(file)) ? files : undefined;
  });
  const { pid } = (await Bun.file(holder ?? "").json()) as { pid: number };
  child.kill("SIGINT");
  await child.exited;
  expect(child.exitCode).toBe(130);
  expect(existsSync(`/proc/${pid}`)).toBe(false);
  expect(readdirSync(dir)).toEqual([]);
});
