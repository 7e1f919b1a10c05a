import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, lstatSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  beneath,
  codeOf,
  dir,
  fifo,
  link,
  MISSING,
  OUTSIDE,
  put,
  setUp,
  tearDown,
  textOf,
  workspace,
} from "./beneath_kit.ts";

beforeEach(setUp);
afterEach(tearDown);

describe("where a path leads", () => {
  beforeEach(() => {
    put("ok.txt", "inside");
    put("dir/file", "deep");
    link("/workspace/ok.txt", "absolute");
    link("dir", "to_dir");
    link("to_dir/../ok.txt", "through");
    link("/etc/passwd", "passwd");
    link("../../../../../../etc/passwd", "climbing");
    link("../../secret", "neighbour");
    link("/", "slash");
    link("..", "up");
    link("/proc/self/root/etc/passwd", "magic");
    link("loop", "loop");
    link("nowhere", "dangling");
  });
  test.each([
    ["/workspace/ok.txt", "/workspace/ok.txt"],
    ["/workspace/absolute", "/workspace/ok.txt"],
    ["/workspace/through", "/workspace/ok.txt"],
    ["/workspace/to_dir/file", "/workspace/dir/file"],
    ["/workspace//dir/./file", "/workspace/dir/file"],
    ["/workspace/../workspace/ok.txt", "/workspace/ok.txt"],
    ["/workspace/up/workspace/ok.txt", "/workspace/ok.txt"],
    ["/workspace", "/workspace"],
    ["/workspace/", "/workspace"],
  ])("%s is %s", async (path, resolved) => {
    expect((await beneath.list(path)).path).toBe(resolved);
  });
  test.each([
    ["/", OUTSIDE],
    ["/etc/passwd", OUTSIDE],
    ["/workspacex", OUTSIDE],
    ["workspace", OUTSIDE],
    ["", OUTSIDE],
    ["/workspace/\0", OUTSIDE],
    ["/workspace/../../../etc/passwd", OUTSIDE],
    ["/workspace/passwd", OUTSIDE],
    ["/workspace/climbing", OUTSIDE],
    ["/workspace/neighbour", OUTSIDE],
    ["/workspace/slash", OUTSIDE],
    ["/workspace/slash/etc", OUTSIDE],
    ["/workspace/up", OUTSIDE],
    ["/workspace/magic", OUTSIDE],
    ["/workspace/nothing", MISSING],
    ["/workspace/nothing/deeper", MISSING],
    ["/workspace/ok.txt/deeper", MISSING],
    ["/workspace/loop", MISSING],
    ["/workspace/dangling", MISSING],
    [`/workspace/${"n".repeat(300)}`, MISSING],
    [`/workspace/${"n/".repeat(3000)}`, MISSING],
  ])("%s is refused: %s", async (path, code) => {
    expect(await codeOf(() => beneath.list(path))).toBe(code);
    expect(await codeOf(() => beneath.openFile(path))).toBe(code);
  });
});

describe("listing", () => {
  test("names are in byte order, with what each is", async () => {
    put("b");
    put("a/x");
    put("B");
    put("ä");
    link("/etc/passwd", "l");
    fifo("f");
    const { entries, truncated, type, size } = await beneath.list("/workspace");
    expect(entries.map(({ name, type }) => `${name} ${type}`)).toEqual([
      "B file",
      "a directory",
      "b file",
      "f other",
      "l symlink",
      "ä file",
    ]);
    expect({ truncated, type, size }).toEqual({ truncated: false, type: "directory", size: null });
  });

  test("of more than a thousand names the first thousand are listed", async () => {
    for (let i = 0; i < 2345; i++) put(`many/${String(i).padStart(5, "0")}`);
    const { entries, truncated } = await beneath.list("/workspace/many");
    expect(truncated).toBe(true);
    expect(entries.length).toBe(1000);
    expect([entries[0]?.name, entries.at(-1)?.name]).toEqual(["00000", "00999"]);
    rmSync(join(workspace, "many"), { recursive: true });
    for (let i = 0; i < 1000; i++) put(`many/${i}`);
    expect((await beneath.list("/workspace/many")).truncated).toBe(false);
  });

  test("a file has a size and no entries", async () => {
    put("a", "12345");
    expect(await beneath.list("/workspace/a")).toEqual({
      path: "/workspace/a",
      type: "file",
      size: 5,
      entries: [],
      truncated: false,
    });
  });

  test("a name that is not UTF-8 is listed with replacement characters", async () => {
    writeFileSync(Buffer.concat([Buffer.from(`${workspace}/`), Buffer.from([0x66, 0xff, 0xfe])]), "x");
    expect((await beneath.list("/workspace")).entries).toEqual([{ name: "f��", type: "file" }]);
  });
});

describe("reading", () => {
  test("a regular file is read, also behind a link in the workspace", () => {
    put("a", "text");
    link("a", "b");
    expect([textOf("/workspace/a"), textOf("/workspace/b")]).toEqual(["text", "text"]);
  });
  test("a FIFO without a writer and a directory are refused at once", async () => {
    fifo("f");
    put("d/x");
    expect(await codeOf(() => beneath.openFile("/workspace/f"))).toBe("400 invalid_request");
    expect(await codeOf(() => beneath.openFile("/workspace/d"))).toBe("400 invalid_request");
    expect((await beneath.list("/workspace/f")).type).toBe("other");
  });
});

describe("writing", () => {
  const incoming = (text: string) => {
    const path = join(dir, `incoming-${crypto.randomUUID()}`);
    writeFileSync(path, text);
    return path;
  };
  test("parents are made, also behind a link", () => {
    put("real/x");
    link("/workspace/real", "alias");
    expect(beneath.moveIn(incoming("1"), "/workspace/a/b/c.txt")).toEqual({
      path: "/workspace/a/b/c.txt",
      replaced: false,
    });
    expect(beneath.moveIn(incoming("2"), "/workspace/alias/deep/d.txt").path).toBe("/workspace/real/deep/d.txt");
    expect(readFileSync(join(workspace, "a/b/c.txt"), "utf8")).toBe("1");
    expect(readFileSync(join(workspace, "real/deep/d.txt"), "utf8")).toBe("2");
  });
  test("a link at the end is replaced, not followed", () => {
    link(join(dir, "secret"), "l");
    expect(beneath.moveIn(incoming("new"), "/workspace/l")).toEqual({ path: "/workspace/l", replaced: true });
    expect(readFileSync(join(dir, "secret"), "utf8")).toBe("secret");
    expect(lstatSync(join(workspace, "l")).isFile()).toBe(true);
  });
  test("a link on the way leads nowhere outside, and nothing is made there", async () => {
    link(dir, "out");
    link("/workspace/nowhere", "dangling");
    link("..", "up");
    for (const path of ["/workspace/out/x", "/workspace/out/new/x", "/workspace/up/x", "/workspace/up/new/x"])
      expect(await codeOf(() => beneath.moveIn(incoming("x"), path))).toBe(OUTSIDE);
    expect(await codeOf(() => beneath.moveIn(incoming("x"), "/workspace/dangling/x"))).toBe("400 invalid_request");
    expect(readdirSync(join(dir, "root"))).toEqual(["workspace"]);
    expect(existsSync(join(dir, "new"))).toBe(false);
  });
  test.each([
    ["/workspace", "400 invalid_request"],
    ["/workspace/x/..", "400 invalid_request"],
    ["/workspace/dir/", "400 invalid_request"],
    ["/workspace/dir", "400 invalid_request"],
    ["/workspace/../x", OUTSIDE],
    ["x", OUTSIDE],
  ])("%s cannot be written: %s", async (path, code) => {
    put("dir/x");
    expect(await codeOf(() => beneath.moveIn(incoming("x"), path))).toBe(code);
  });
});
