import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../test/harness.ts";
import { makeLockedFolder, removeAbandonedFolders } from "./locked_folder.ts";

test("a sweep removes the folders of dead processes and no other", async () => {
  const root = tempDir();
  const mine = await makeLockedFolder(root);
  mkdirSync(join(root, "dead"));
  writeFileSync(join(root, "dead", "model.gguf"), "x");
  writeFileSync(join(root, "dead.lock"), "");
  await removeAbandonedFolders(root);
  expect(existsSync(mine.dir)).toBe(true);
  expect(existsSync(join(root, "dead"))).toBe(false);
  await mine.remove();
  expect(readdirSync(root)).toEqual([]);
});

test("a killed process leaves a folder that the next sweep removes", async () => {
  const root = tempDir();
  const code = `const { makeLockedFolder } = await import(${JSON.stringify(join(import.meta.dir, "locked_folder.ts"))});
    console.log((await makeLockedFolder(${JSON.stringify(root)})).dir); setInterval(() => {}, 1000);`;
  const child = Bun.spawn([process.execPath, "-e", code], { stdout: "pipe" });
  const { value } = await child.stdout.getReader().read();
  const dir = new TextDecoder().decode(value).trim();
  await removeAbandonedFolders(root);
  expect(existsSync(dir)).toBe(true);
  child.kill("SIGKILL");
  await child.exited;
  await removeAbandonedFolders(root);
  expect(readdirSync(root)).toEqual([]);
});
