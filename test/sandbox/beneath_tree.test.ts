// tier: all (many jails)
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  chmodSync,
  closeSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { emptyDirectory, measureTree } from "../../src/sandbox/files/beneath_tree.ts";
import { sweep } from "../sweep.ts";
import { beneath, codeOf, dir, link, MISSING, put, setUp, tearDown, workspace } from "./beneath_kit.ts";

/** Either makes a path longer than 4,096 bytes, the most that a system call takes. */
const LEVELS = sweep({ quick: 2_500, full: 5_000 });
const FILES = sweep({ quick: 10_000, full: 50_000 });

beforeEach(setUp);
afterEach(tearDown);

describe("deleting", () => {
  test("a file, a link without its target, and a directory only on request", async () => {
    put("a");
    put("d/e/f");
    link("a", "l");
    await beneath.remove("/workspace/l", { recursive: false });
    expect(existsSync(join(workspace, "a"))).toBe(true);
    await beneath.remove("/workspace/a", { recursive: false });
    expect(await codeOf(() => beneath.remove("/workspace/d", { recursive: false }))).toBe("400 invalid_request");
    expect(await beneath.remove("/workspace/d", { recursive: true })).toEqual({ path: "/workspace/d" });
    expect(readdirSync(workspace)).toEqual([]);
    expect(await codeOf(() => beneath.remove("/workspace/a", { recursive: true }))).toBe(MISSING);
    expect(await codeOf(() => beneath.remove("/workspace", { recursive: true }))).toBe("400 invalid_request");
  });

  test("links in a tree are removed, but their targets stay", async () => {
    put("d/x");
    symlinkSync(dir, join(workspace, "d/out"));
    await beneath.remove("/workspace/d", { recursive: true });
    expect(readFileSync(join(dir, "secret"), "utf8")).toBe("secret");
  });

  test("names that are not UTF-8 and unreadable directories are deleted too", async () => {
    put("d/locked/inner/x");
    writeFileSync(Buffer.concat([Buffer.from(`${workspace}/d/`), Buffer.from([0xff])]), "x");
    chmodSync(join(workspace, "d/locked/inner"), 0);
    chmodSync(join(workspace, "d/locked"), 0);
    chmodSync(join(workspace, "d"), 0o500);
    await beneath.remove("/workspace/d", { recursive: true });
    expect(readdirSync(workspace)).toEqual([]);
  });

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

describe("measuring", () => {
  const measure = async (most = 1_000_000) => {
    const fd = openSync(workspace, "r");
    try {
      return await measureTree(fd, most);
    } finally {
      closeSync(fd);
    }
  };
  test("bytes and entries of the whole tree are counted, links are not followed", async () => {
    put("a/b/c", "x".repeat(100_000));
    put("d", "x".repeat(10_000));
    link("/usr", "l");
    const { bytes, entries, hidden } = await measure();
    expect(bytes).toBeGreaterThanOrEqual(110_000);
    expect(bytes).toBeLessThan(200_000);
    expect({ entries, hidden }).toEqual({ entries: 5, hidden: false });
  });
  test("counting stops above the limit, and reports entries that lie too deep", async () => {
    for (let i = 0; i < 3000; i++) put(`m/${i}`);
    expect((await measure(100)).entries).toBeLessThan(2000);
    mkdirSync(join(workspace, "n/".repeat(300)), { recursive: true });
    expect((await measure()).hidden).toBe(true);
  });
  test("a hole in a file and a second name of a file are not counted", async () => {
    const fd = openSync(join(workspace, "sparse"), "w");
    Bun.spawnSync(["truncate", "-s", "1G", join(workspace, "sparse")]);
    closeSync(fd);
    put("a", "x".repeat(50_000));
    linkSync(join(workspace, "a"), join(workspace, "b"));
    const { bytes, entries } = await measure();
    expect(bytes).toBeLessThan(60_000);
    expect(entries).toBe(3);
  });
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
