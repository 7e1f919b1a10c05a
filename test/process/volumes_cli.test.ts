// tier: all (whole paths on the executable)
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chownSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { runVerk, spawnVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";

const root = tempDir();
let server: Awaited<ReturnType<typeof startBinary>>;
beforeAll(async () => {
  server = await startBinary();
});
afterAll(async () => {
  await server.kill();
  for (const dir of [root, server.dir]) rmSync(dir, { recursive: true, force: true });
});

const spawn = (args: string[], stdin: ReadableStream) =>
  spawnVerk(args, { cwd: root, env: { VERK_DATA: server.dir }, stdin });
type Options = { stdin?: string; dir?: string };
const verk = (args: string[], { stdin, dir = server.dir }: Options = {}) =>
  runVerk([...args, "--data", dir], { cwd: root, stdin });
const volumes = (...args: string[]) => verk(["volumes", ...args]);
const paths = async (volume: string) =>
  ((await volumes("ls", volume, "--json")).json().data as { path: string }[]).map(({ path }) => path);

function file(path: string, content: string | Uint8Array): string {
  const full = join(root, path);
  mkdirSync(join(full, ".."), { recursive: true });
  writeFileSync(full, content);
  return full;
}

test("a volume is created, listed, filled, emptied and deleted", async () => {
  expect((await volumes("create", "first")).out).toMatch(/^vol_\w{26}\n$/);
  expect(await volumes("create", "first")).toMatchObject({ code: 1, err: expect.stringContaining("first") });
  file("one.txt", "one");
  expect(await volumes("cp", "one.txt", "first:")).toMatchObject({
    code: 0,
    err: expect.stringContaining("1 file, 3 B"),
  });
  expect((await volumes("ls", "first")).out).toMatch(/^PATH .*\none\.txt +3 B +7692c3ad3540 /);
  expect((await volumes("list")).out).toMatch(/^NAME .*\nfirst +1 +3 B /);
  expect((await volumes("rm", "first:one.txt", "--json")).json()).toMatchObject({ deleted: true, path: "one.txt" });
  expect((await volumes("ls", "first")).err).toContain("No files in first");
  expect((await volumes("delete", "first")).code).toBe(0);
  expect(await volumes("ls", "first")).toMatchObject({ code: 1, err: expect.stringContaining("No volume first") });
});

describe("cp", () => {
  beforeAll(async () => {
    await volumes("create", "lab");
  });
  const big = crypto.getRandomValues(new Uint8Array(65_536)).toHex().repeat(40); // 5 MB

  test("a file keeps its bytes in and out, under a given name or its own", async () => {
    file("big.bin", big);
    for (const to of ["lab:in/renamed.bin", "lab:in/", "lab:"])
      expect((await volumes("cp", "big.bin", to)).code).toBe(0);
    expect(await paths("lab")).toEqual(["big.bin", "in/big.bin", "in/renamed.bin"]);
    mkdirSync(join(root, "out"));
    for (const to of ["out", "out/again.bin", "out/new/"])
      expect((await volumes("cp", "lab:in/renamed.bin", to)).code).toBe(0);
    for (const path of ["out/renamed.bin", "out/again.bin", "out/new/renamed.bin"])
      expect(readFileSync(join(root, path), "utf8")).toBe(big);
    const piped = await volumes("cp", "lab:big.bin", "-");
    expect([piped.code, piped.out === big]).toEqual([0, true]);
  });

  test("standard input goes in under a whole path", async () => {
    expect((await verk(["volumes", "cp", "-", "lab:piped.txt"], { stdin: "piped" })).code).toBe(0);
    expect((await volumes("cp", "lab:piped.txt", "-")).out).toBe("piped");
    expect(await verk(["volumes", "cp", "-", "lab:"], { stdin: "x" })).toMatchObject({ code: 2 });
  });

  test("a named pipe is uploaded while it is read", async () => {
    Bun.spawnSync(["mkfifo", join(root, "pipe")]);
    const writer = Bun.spawn(["sh", "-c", "printf piped > pipe"], { cwd: root });
    try {
      expect(await volumes("cp", "pipe", "lab:")).toMatchObject({ code: 0 });
      expect((await volumes("cp", "lab:pipe", "-")).out).toBe("piped");
    } finally {
      writer.kill();
    }
  });

  test("a name that no volume accepts is reported before anything is sent", async () => {
    for (const [folder, name] of [
      ["line", "new\nline"],
      ["bytes", "bad\xff"],
    ] as const) {
      file(`${folder}/a.txt`, "a");
      writeFileSync(Buffer.from(join(root, folder, name), "latin1"), "b");
      const { code, err } = await volumes("cp", "-r", folder, "lab:");
      expect([code, err]).toEqual([1, expect.stringMatching(/^verk: .*Rename the file.\n$/)]);
      expect(await paths(`lab:${folder}/`)).toEqual([]);
    }
  });

  test("folders are copied both ways with -r, and existing files are not sent again", async () => {
    for (const name of ["a.txt", "deep/er/b.txt", "deep/ü 100%.txt", "empty"])
      file(`tree/${name}`, name === "empty" ? "" : name);
    symlinkSync("a.txt", join(root, "tree/link"));
    const first = await volumes("cp", "-r", "tree", "lab:", "--json");
    expect(first.json()).toMatchObject({ files: 4, unchanged: 0 });
    expect(first.err).toContain("skipped links and special files: 1");
    expect(await paths("lab:tree/")).toEqual([
      "tree/a.txt",
      "tree/deep/er/b.txt",
      "tree/deep/ü 100%.txt",
      "tree/empty",
    ]);
    file("tree/a.txt", "changed");
    expect((await volumes("cp", "-r", "tree", "lab:", "--json")).json()).toMatchObject({ files: 4, unchanged: 3 });
    expect((await volumes("cp", "-r", "lab:tree", "copy")).code).toBe(0);
    const found = readdirSync(join(root, "copy"), { recursive: true }).map(String).sort();
    expect(found).toEqual(["a.txt", "deep", "deep/er", "deep/er/b.txt", "deep/ü 100%.txt", "empty"]);
    expect(readFileSync(join(root, "copy/a.txt"), "utf8")).toBe("changed");
  });

  test.each([
    [["tree", "lab:"], 2, "tree is a folder. Add -r"],
    [["lab:tree", "."], 1, "lab:tree is a folder. Add -r"],
    [["lab:none", "."], 1, "There is no file none in the volume lab"],
    [["-r", "lab:none", "."], 1, "There are no files in lab:none/"],
    [["none", "lab:"], 2, "there is no such file"],
    [["one.txt", "two.txt"], 2, "one argument must be a path in a volume"],
    [["lab:a", "lab:b"], 2, "one argument must be a path in a volume"],
    [["one.txt", "lost:"], 1, "No volume lost"],
    [["one.txt", "lab:../x"], 1, ".. may not be a part of it"],
  ])("verk volumes cp %p is refused with a message", async (args, code, message) => {
    const answer = await volumes("cp", ...args);
    expect(answer.err).toContain(message);
    expect([answer.code, answer.out]).toEqual([code, ""]);
  });

  test("Ctrl-C in the middle exits 130 and leaves no file", async () => {
    const { readable, writable } = new TransformStream<string, string>();
    const writer = writable.getWriter();
    void writer.write(big).catch(() => {});
    const temps = () =>
      readdirSync(join(server.dir, "storage"), { recursive: true }).filter((name) =>
        String(name).includes(".verk-tmp-"),
      );
    const child = spawn(["volumes", "cp", "-", "lab:interrupted"], readable);
    await until("the file to begin", () => temps().length > 0);
    child.kill("SIGINT");
    await child.exited;
    expect(child.exitCode).toBe(130);
    await until("the server to clean up", () => temps().length === 0);
    expect(await paths("lab:interrupted")).toEqual([]);
    void writer.abort().catch(() => {});
  });
});

const NOBODY = 65_534;
test.skipIf(process.getuid?.() !== 0)(
  "root in another user's data directory leaves no files of root there, and keeps its own files",
  async () => {
    const dir = tempDir();
    chownSync(dir, NOBODY, NOBODY);
    const own = await startBinary({ dir });
    mkdirSync(join(root, "private"), { mode: 0o700 });
    file("private/rows.jsonl", '{"prompt":"a"}\n');
    expect((await verk(["datasets", "push", "private/rows.jsonl"], { dir })).code).toBe(0);
    expect((await verk(["datasets", "pull", "rows", "-o", "private/back.jsonl"], { dir })).code).toBe(0);
    expect(statSync(join(root, "private/back.jsonl")).uid).toBe(0);
    const owners = readdirSync(dir, { recursive: true }).map((name) => statSync(join(dir, String(name))).uid);
    expect(new Set(owners)).toEqual(new Set([NOBODY]));
    await own.kill();
    rmSync(dir, { recursive: true, force: true });
  },
);
