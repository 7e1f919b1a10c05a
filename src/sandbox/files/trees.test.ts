import { expect, test } from "bun:test";
import { existsSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../test/harness.ts";
import { jobsDir } from "./foreign_dir.ts";
import { exists, makeDir, namesIn, removeTree } from "./trees.ts";

test("a directory is made with its parents, listed and removed; a file and a link are none", async () => {
  const data = realpathSync(tempDir());
  const dir = jobsDir(data).below("job_1", "work");
  const path = join(data, "jobs/job_1/work");
  expect([exists(dir), await namesIn(dir)]).toEqual([false, []]);
  makeDir(dir);
  makeDir(dir); // once more changes nothing
  expect([exists(dir), await namesIn(dir)]).toEqual([true, []]);
  writeFileSync(join(path, "file"), "x");
  symlinkSync(data, join(path, "link"));
  makeDir(dir.below("inner"));
  expect((await namesIn(dir)).sort()).toEqual(["file", "inner", "link"]);
  expect(["file", "link", "inner", "none"].map((name) => exists(dir.below(name)))).toEqual([false, false, true, false]);
  await removeTree(dir);
  expect([exists(dir), existsSync(path), existsSync(data)]).toEqual([false, false, true]);
});
