import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  chmodSync,
  closeSync,
  existsSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beneath, codeOf, dir, link, MISSING, measured, put, setUp, tearDown, workspace } from "./beneath_kit.ts";

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
});

describe("measuring", () => {
  test("bytes and entries of the whole tree are counted, links are not followed", async () => {
    put("a/b/c", "x".repeat(100_000));
    put("d", "x".repeat(10_000));
    link("/usr", "l");
    const { bytes, entries, hidden } = await measured();
    expect(bytes).toBeGreaterThanOrEqual(110_000);
    expect(bytes).toBeLessThan(200_000);
    expect({ entries, hidden }).toEqual({ entries: 5, hidden: false });
  });
  test("a hole in a file and a second name of a file are not counted", async () => {
    const fd = openSync(join(workspace, "sparse"), "w");
    Bun.spawnSync(["truncate", "-s", "1G", join(workspace, "sparse")]);
    closeSync(fd);
    put("a", "x".repeat(50_000));
    linkSync(join(workspace, "a"), join(workspace, "b"));
    const { bytes, entries } = await measured();
    expect(bytes).toBeLessThan(60_000);
    expect(entries).toBe(3);
  });
});
