import { afterAll, expect, test } from "bun:test";
import { chmodSync, lstatSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../test/harness.ts";
import { toFile } from "./sink.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true }));

const at = (name: string) => join(dir, name);
async function* chunks() {
  yield new TextEncoder().encode("new");
}

test("what is no file is written to, never replaced", async () => {
  Bun.spawnSync(["mkfifo", at("pipe")]);
  const reader = Bun.spawn(["cat", at("pipe")], { stdout: "pipe" });
  try {
    await toFile(at("pipe"))(chunks());
    expect(lstatSync(at("pipe")).isFIFO()).toBe(true);
    expect(await new Response(reader.stdout).text()).toBe("new");
  } finally {
    reader.kill();
  }
});

test("a link stays, and the file that it names is the new one, with the rights it had", async () => {
  writeFileSync(at("real"), "old");
  chmodSync(at("real"), 0o640);
  symlinkSync("real", at("link"));
  await toFile(at("link"))(chunks());
  expect(lstatSync(at("link")).isSymbolicLink()).toBe(true);
  expect(readFileSync(at("real"), "utf8")).toBe("new");
  expect(lstatSync(at("real")).mode & 0o777).toBe(0o640);
});
