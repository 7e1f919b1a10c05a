// tier: all (long paths and large trees, 20 s)
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { closeSync, mkdirSync, openSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { emptyDirectory } from "../../src/sandbox/files/beneath_tree.ts";
import { cpuMsOf } from "../cost.ts";
import { sweep } from "../sweep.ts";
import { beneath, codeOf, dir, link, measured, put, setUp, tearDown, workspace } from "./beneath_kit.ts";

/** Either makes a path longer than 4,096 bytes, the most that a system call takes. */
const LEVELS = sweep({ quick: 2_500, full: 5_000 });
const FILES = sweep({ quick: 10_000, full: 50_000 });

beforeEach(setUp);
afterEach(tearDown);

describe("a path of thousands of steps delays no other call", () => {
  /** The least of three: something else of this process may fall into one. */
  const msOf = async (work: () => unknown) => {
    const took: number[] = [];
    for (let i = 0; i < 3; i++) took.push(await cpuMsOf(work));
    return Math.min(...took);
  };
  const nest = (levels: number) =>
    Bun.spawnSync(["perl", "-e", `for (1..${levels}) { mkdir "e" or die; chdir "e" }`], { cwd: workspace });

  test("when its end is missing", async () => {
    nest(2000);
    const path = `/workspace/${"e/".repeat(2000)}x`;
    expect(await codeOf(() => beneath.list(path))).toBe("404 resource_not_found");
    expect(await msOf(() => codeOf(() => beneath.list(path)))).toBeLessThan(100);
    await beneath.remove("/workspace/e", { recursive: true });
  });

  test("when it goes in and out through links", async () => {
    nest(700);
    for (let i = 0; i < 38; i++) link(`${"e/".repeat(700)}${"../".repeat(700)}l${i + 1}`, `l${i}`);
    expect(await msOf(() => codeOf(() => beneath.list("/workspace/l0/x")))).toBeLessThan(100);
  });

  test("when it is made", async () => {
    const made = (i: number) => {
      writeFileSync(join(dir, "file"), "x");
      return beneath.moveIn(join(dir, "file"), `/workspace/${i}${"/d".repeat(300)}`);
    };
    let i = 0;
    expect(await msOf(() => made(i++))).toBeLessThan(200);
  });
});

describe("deleting", () => {
  test(`a tree of ${LEVELS} levels is deleted with a handful of descriptors`, async () => {
    const made = Bun.spawnSync([
      "perl",
      "-e",
      "chdir shift; for (1..shift) { mkdir 'd' or die; open F, '>', 'f'; chdir 'd' or die }",
      workspace,
      `${LEVELS}`,
    ]);
    expect(made.success).toBe(true);
    const before = readdirSync("/proc/self/fd").length;
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, readdirSync("/proc/self/fd").length);
    }, 1);
    await beneath.remove("/workspace/d", { recursive: true });
    clearInterval(watch);
    expect(readdirSync(workspace)).toEqual(["f"]);
    expect(most).toBeLessThan(before + 50);
  }, 120_000);

  test(`${FILES} files are deleted without delaying other requests`, async () => {
    mkdirSync(join(workspace, "d"));
    const made = "chdir shift; for (1..shift) { open F, '>', $_ or die }";
    Bun.spawnSync(["perl", "-e", made, join(workspace, "d"), `${FILES}`]);
    let turns = 0;
    const watch = setInterval(() => turns++, 1);
    await beneath.remove("/workspace/d", { recursive: true });
    clearInterval(watch);
    expect(readdirSync(workspace)).toEqual([]);
    expect(turns).toBeGreaterThan(FILES / 1000);
  }, 120_000);
});

test("counting stops above the limit, and reports entries that lie too deep", async () => {
  for (let i = 0; i < 3000; i++) put(`m/${i}`);
  expect((await measured(100)).entries).toBeLessThan(2000);
  mkdirSync(join(workspace, "n/".repeat(300)), { recursive: true });
  expect((await measured()).hidden).toBe(true);
});

test("emptying stops when its time is over, and the rest can be emptied later", async () => {
  for (let i = 0; i < 3000; i++) put(`d/${i}`);
  const fd = openSync(workspace, "r");
  try {
    const refused = await emptyDirectory(fd, "d", 0).catch((error) => error as Error);
    expect(String(refused)).toContain("ENOTEMPTY");
    await emptyDirectory(fd, "d", 60_000);
    expect(readdirSync(join(workspace, "d"))).toEqual([]);
  } finally {
    closeSync(fd);
  }
});
