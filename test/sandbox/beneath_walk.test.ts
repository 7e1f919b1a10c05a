/** The walk without openat2 against the kernel's own openat2: the same file, or the same error. */
import { afterAll, expect, test } from "bun:test";
import { closeSync, mkdirSync, openSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CallError, O, openat2, statOf } from "../../src/sandbox/files/beneath_calls.ts";
import { AS_INSIDE, THE_NAME } from "../../src/sandbox/files/beneath_open.ts";
import { openByWalk } from "../../src/sandbox/files/beneath_walk.ts";
import { tempDir } from "../harness.ts";
import { randomFor, sweep } from "../sweep.ts";

const top = tempDir();
const root = join(top, "root");
mkdirSync(join(root, "a/b/c"), { recursive: true });
mkdirSync(join(root, "d"));
for (const file of ["f", "a/f", "a/b/f", "d/ü"]) writeFileSync(join(root, file), file);
writeFileSync(join(top, "f"), "outside");
const LINKS: Record<string, string> = {
  up: "..",
  "a/up": "../..",
  "a/b/abs": "/d",
  "d/deep": "../a/./b//c/",
  "d/loop": "../d/loop",
  "a/gone": "../nothing",
  "a/out": top,
  "d/file": "../a/f",
  "a/b/c/self": ".",
  "a/chain": "b/abs/deep/../f",
  "d/slash": "../f/",
};
for (const [at, to] of Object.entries(LINKS)) symlinkSync(to, join(root, at));
const dir = openSync(root, O.O_RDONLY | O.O_DIRECTORY);
afterAll(() => {
  closeSync(dir);
  rmSync(top, { recursive: true, force: true });
});

const NAMES = [
  "a",
  "b",
  "c",
  "d",
  "f",
  "ü",
  "up",
  "abs",
  "deep",
  "loop",
  "gone",
  "out",
  "file",
  "self",
  "chain",
  "slash",
];
const PARTS = [...NAMES, ...NAMES, "..", "..", ".", "", "x"];
const FLAGS = [
  O.O_RDONLY,
  O.O_PATH,
  O.O_RDONLY | O.O_DIRECTORY,
  O.O_RDONLY | O.O_NOFOLLOW,
  O.O_PATH | O.O_NOFOLLOW,
  O.O_PATH | O.O_DIRECTORY | O.O_NOFOLLOW,
  O.O_PATH | O.O_DIRECTORY,
];

/** The opened file, or the name of the error. */
function outcome(open: () => number): string {
  try {
    const fd = open();
    const { inode, kind } = statOf(fd);
    closeSync(fd);
    return `${kind} ${inode}`;
  } catch (error) {
    if (error instanceof CallError) return error.code;
    throw error;
  }
}

function byKernel(path: string, flags: number, resolve: bigint): number {
  const fd = openat2(dir, path, flags | O.O_CLOEXEC, 0, resolve);
  if (fd < 0) throw new CallError("openat2", -fd);
  return fd;
}

test("random paths through links, dots and files lead to the same file or the same error", () => {
  const random = randomFor("paths without openat2");
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const seen = new Set<string>();
  for (let i = 0; i < sweep({ quick: 4_000, full: 100_000 }); i++) {
    const parts = Array.from({ length: 1 + Math.floor(random() * 5) }, () => pick(PARTS));
    const path = `${random() < 0.3 ? "/" : ""}${parts.join("/")}`;
    const [flags, resolve] = [pick(FLAGS), pick([AS_INSIDE, THE_NAME])];
    const wanted = outcome(() => byKernel(path, flags, resolve));
    const about = `${JSON.stringify(path)} flags ${flags.toString(8)} resolve ${resolve}: `;
    expect(about + outcome(() => openByWalk(dir, path, flags | O.O_CLOEXEC, resolve))).toBe(about + wanted);
    seen.add(wanted.split(" ")[0] ?? "");
  }
  for (const each of ["file", "directory", "symlink", "ENOENT", "ENOTDIR", "ELOOP"]) expect(seen).toContain(each);
});

test("creates a file below the root, also through a link, and never outside", () => {
  const create = (path: string, resolve: bigint) =>
    outcome(() => openByWalk(dir, path, O.O_RDWR | O.O_CREAT | O.O_CLOEXEC, resolve, 0o600));
  expect(create("a/new", THE_NAME)).toStartWith("file");
  expect(create("a/up/../../made", AS_INSIDE)).toStartWith("file");
  expect(statOf(openSync(join(root, "made"), O.O_RDONLY)).kind).toBe("file");
  expect(create("a/out/f", AS_INSIDE)).toBe("ENOENT"); // the link leads to a path that the root does not have
  expect(create("../made", THE_NAME)).toBe("EXDEV");
  expect(() => openSync(join(top, "made"), O.O_RDONLY)).toThrow();
});

test("another file system is not entered", () => {
  const slash = openSync("/", O.O_RDONLY | O.O_DIRECTORY);
  expect(outcome(() => openByWalk(slash, "proc/self/status", O.O_RDONLY, THE_NAME))).toBe("EXDEV");
  closeSync(slash);
});

test("a name that turns into a link outside again and again is never followed outside", async () => {
  const [name, inside, outside] = ["swap", "swap.inside", "swap.outside"].map((each) => join(root, each)) as [
    string,
    string,
    string,
  ];
  const secret = statOf(openSync(join(top, "f"), O.O_RDONLY)).inode;
  const swapper = Bun.spawn(
    [
      process.execPath,
      "-e",
      `const fs = require("fs"); for (;;) {
        fs.writeFileSync(${JSON.stringify(inside)}, "inside"); fs.renameSync(${JSON.stringify(inside)}, ${JSON.stringify(name)});
        fs.symlinkSync("../../f", ${JSON.stringify(outside)}); fs.renameSync(${JSON.stringify(outside)}, ${JSON.stringify(name)});
      }`,
    ],
    { stdout: "ignore", stderr: "ignore" },
  );
  try {
    const outcomes = new Set<string>();
    const end = performance.now() + sweep({ quick: 700, full: 10_000 });
    while (performance.now() < end || outcomes.size < 2) {
      const found = outcome(() => openByWalk(dir, "swap", O.O_RDONLY | O.O_CLOEXEC, AS_INSIDE));
      expect(found).not.toBe(`file ${secret}`);
      outcomes.add(found.split(" ")[0] ?? "");
      if (performance.now() > end + 20_000) break;
    }
    expect(outcomes).toContain("file");
  } finally {
    swapper.kill("SIGKILL");
    await swapper.exited;
  }
});
