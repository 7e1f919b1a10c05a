// tier: all (emulated CUDA)
import { afterAll, expect, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../test/harness.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

async function check(parts: readonly string[], env: Record<string, string> = {}) {
  const command = [process.execPath, join(import.meta.dir, "main.ts"), "--cpu", "--out", dir, ...parts];
  const child = Bun.spawn(command, { env: { ...process.env, ...env }, stdout: "ignore", stderr: "ignore" });
  const code = await child.exited;
  const { rows } = JSON.parse(readFileSync(join(dir, "report.json"), "utf8")) as {
    rows: { bench: string; ok: boolean }[];
  };
  return { code, rows };
}

test("the check of a GPU works on the processor", async () => {
  const { code, rows } = await check(["rolling"]);
  expect([...new Set(rows.map(({ bench }) => bench))]).toEqual(["rolling"]);
  expect(rows.filter(({ ok }) => ok === false)).toEqual([]);
  expect(code).toBe(0);
}, 600_000);

test("the check goes part by part, and a part that ends early is a finding, not an end of the check", async () => {
  const { code, rows } = await check(["peft", "exact"], { VERK_PYTHON: "false" });
  expect(rows.map(({ bench, ok }) => `${bench} ${ok}`)).toEqual([
    "peft false",
    "exact true",
    "exact true",
    "exact true",
  ]);
  expect(code).toBe(1);
}, 600_000);
