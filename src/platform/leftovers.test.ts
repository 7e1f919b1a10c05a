import { expect, test } from "bun:test";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../test/harness.ts";
import { tempPath } from "./files.ts";
import { removeLeftovers } from "./leftovers.ts";

test("D8 leftovers of a kill: the start removes temporary files of any age and nothing else", async () => {
  const dir = tempDir();
  for (const folder of ["storage/tmp", "tmp", "models/.uploads"]) mkdirSync(join(dir, folder), { recursive: true });
  for (const folder of ["storage/tmp", "storage/tmp", "tmp", "models/.uploads"])
    writeFileSync(tempPath(join(dir, folder)), "half an upload");
  writeFileSync(join(dir, "models/.uploads/upl_1.gguf"), "whole");
  expect(await removeLeftovers(dir)).toBe(4); // the folder `detection` does not exist
  const left = (readdirSync(dir, { recursive: true }) as string[]).filter((name) => /tmp-|gguf/.test(name));
  expect(left).toEqual(["models/.uploads/upl_1.gguf"]);
});
