import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { paxRecord, type TarEntry, tar, tarBlock, tarGz, type ZipFile, zip } from "../../../test/archives.ts";
import { tempDir } from "../../../test/harness.ts";
import { unpackInto } from "./archive.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true }));

let count = 0;
function inspect(bytes: Uint8Array, format: "tar.gz" | "zip") {
  const path = join(dir, `${count++}`);
  writeFileSync(path, bytes);
  return unpackInto(path, format);
}

describe("a good archive", () => {
  test("of tar: files are counted, folders are not", async () => {
    const bytes = tarGz(
      { name: "./", type: "5" },
      { name: "src/", type: "5" },
      { name: "src/main.py", content: "print(1)" },
      { name: "./README", content: "x".repeat(1000) },
      { name: "empty" },
    );
    expect(await inspect(bytes, "tar.gz")).toEqual({ file_count: 3, unpacked_bytes: 1008 });
  });

  test("of tar with names and sizes in pax headers, a GNU long name and a prefix", async () => {
    const long = `${"deep/".repeat(60)}file`;
    const bytes = tarGz(
      { name: "pax_global_header", type: "g", content: paxRecord("comment", "abc") },
      { name: "x", type: "x", content: paxRecord("path", long) + paxRecord("size", "5") },
      { name: "short", content: "12345", size: 0 },
      { name: "././@LongLink", type: "L", content: `${long}2\0` },
      { name: "short", content: "123" },
      { name: "end", prefix: "some/folder", content: "1" },
    );
    expect(await inspect(bytes, "tar.gz")).toEqual({ file_count: 3, unpacked_bytes: 9 });
  });

  test("of zip, packed and not", async () => {
    const bytes = zip(
      { name: "src/", stored: true, mode: 0o40755 },
      { name: "src/ä.py", content: "print(1)" },
      { name: "raw", content: "x".repeat(300_000), stored: true },
      { name: "packed", content: "abc".repeat(300_000) },
    );
    expect(await inspect(bytes, "zip")).toEqual({ file_count: 3, unpacked_bytes: 8 + 300_000 + 900_000 });
  });

  test.skipIf(!Bun.which("tar")).each(["gnu", "pax", "ustar", "v7"])("made by tar in the format %s", async (format) => {
    const source = join(dir, `source-${format}`);
    const name = format === "gnu" || format === "pax" ? `${"n".repeat(200)}.txt` : "n.txt";
    mkdirSync(join(source, "a/b"), { recursive: true });
    writeFileSync(join(source, "a/b", name), "hello");
    writeFileSync(
      join(source, "a", "big"),
      new Uint8Array(70_000).map((_, i) => i * 7),
    );
    const made = join(dir, `${format}.tar.gz`);
    const run = Bun.spawnSync(["tar", `--format=${format}`, "-czf", made, "-C", source, "."]);
    expect(run.stderr.toString()).toBe("");
    expect(await unpackInto(made, "tar.gz")).toEqual({ file_count: 2, unpacked_bytes: 70_005 });
  });
});

describe("tar is refused", () => {
  test.each<[string, TarEntry[], string]>([
    ["an absolute path", [{ name: "/etc/passwd" }], '"/etc/passwd" is an absolute path'],
    ["a drive", [{ name: "C:/x" }], "absolute"],
    ["a way out", [{ name: "a/../../b" }], '"a/../../b" leads out'],
    ["a symbolic link", [{ name: "l", type: "2" }], '"l" is a symbolic link'],
    ["a hard link", [{ name: "l", type: "1" }], "hard link"],
    ["a device", [{ name: "d", type: "3" }], "character device"],
    ["a pipe", [{ name: "p", type: "6" }], "named pipe"],
    ["an unknown kind", [{ name: "u", type: "Z" }], "unknown kind"],
    ["a backslash", [{ name: "a\\..\\b" }], "backslash"],
    ["a control character", [{ name: "a\nb" }], "control character"],
    ["a name twice", [{ name: "a" }, { name: "./a" }], "twice"],
    ["a file that is a folder", [{ name: "a" }, { name: "a/b" }], "lies below"],
    ["a folder that is a file", [{ name: "a/b" }, { name: "a" }], "twice"],
    ["nothing", [{ name: "a/", type: "5" }], "no file"],
    ["a hidden way out", [{ name: "x", type: "x", content: paxRecord("path", "../b") }, { name: "a" }], '"../b"'],
    [
      "a name for all",
      [{ name: "g", type: "g", content: paxRecord("path", "b") }, { name: "a" }],
      "all of its entries",
    ],
    ["a sparse file", [{ name: "x", type: "x", content: paxRecord("GNU.sparse.major", "1") }, { name: "a" }], "sparse"],
    ["a folder with content", [{ name: "a/", type: "5", content: "x" }, { name: "b" }], '"a/" has content'],
    ["a folder of old with content", [{ name: "a/", content: "x" }, { name: "b" }], '"a/" has content'],
    [
      "two long names of one file",
      [
        { name: "x", type: "x", content: paxRecord("path", "../b") },
        { name: "L", type: "L", content: "a\0" },
        { name: "a" },
      ],
      "two names",
    ],
    [
      "two long names the other way round",
      [
        { name: "L", type: "L", content: "../b\0" },
        { name: "x", type: "x", content: paxRecord("path", "a") },
        { name: "a" },
      ],
      "two names",
    ],
    ["a broken pax header", [{ name: "x", type: "x", content: "99 path=b\n" }, { name: "a" }], "pax header"],
  ])("with %s", async (_name, entries, message) => {
    await expect(inspect(tarGz(...entries), "tar.gz")).rejects.toThrow(message);
  });

  test("when it is no tar, cut short, damaged, or continues after its end", async () => {
    const whole = tar({ name: "a", content: "x".repeat(2000) });
    await expect(inspect(new TextEncoder().encode("PK"), "tar.gz")).rejects.toThrow("not a gzip file");
    await expect(inspect(tarGz({ name: "a", content: "b" }).slice(0, -12), "tar.gz")).rejects.toThrow(
      "not a gzip file",
    );
    await expect(inspect(gzipSync(whole.subarray(0, 1500)), "tar.gz")).rejects.toThrow("truncated");
    await expect(inspect(gzipSync(whole.subarray(0, 200)), "tar.gz")).rejects.toThrow("truncated");
    await expect(inspect(gzipSync("x".repeat(1024)), "tar.gz")).rejects.toThrow("not a tar archive");
    const more = Buffer.concat([whole, tarBlock({ name: "../b" })]);
    await expect(inspect(gzipSync(more), "tar.gz")).rejects.toThrow("after its end");
  });

  test("when it has too many entries", async () => {
    const entries = Array.from({ length: 10_001 }, (_, i) => ({ name: `f${i}` }));
    await expect(inspect(tarGz(...entries), "tar.gz")).rejects.toThrow("more than 10000 entries");
    expect((await inspect(tarGz(...entries.slice(0, 10_000)), "tar.gz")).file_count).toBe(10_000);
  }, 120_000);

  test("when its names make more folders than there may be entries", async () => {
    const deep = Array.from({ length: 200 }, (_, i) => `${i}/${"a/".repeat(500)}f`);
    const entries = deep.flatMap((name) => [{ name: "L", type: "L", content: `${name}\0` }, { name: "h" }]);
    await expect(inspect(tarGz(...entries), "tar.gz")).rejects.toThrow("more than 10000 entries");
  });

  test("when it is a bomb, also one of nothing but padding", async () => {
    const zeros = new Uint8Array(64 << 20);
    await expect(inspect(tarGz({ name: "a", content: zeros }), "tar.gz")).rejects.toThrow("200 times as large");
    const padded = Buffer.concat([tar({ name: "a", content: "x" }), zeros]);
    await expect(inspect(gzipSync(padded), "tar.gz")).rejects.toThrow("200 times as large");
  }, 120_000);
});

/** Info-ZIP's field for a name in Unicode. */
function unicodeName(name: string): Uint8Array {
  const field = Buffer.alloc(9);
  field.writeUInt16LE(0x7075, 0);
  field.writeUInt16LE(5 + name.length, 2);
  field.writeUInt8(1, 4);
  field.writeUInt32LE(Bun.hash.crc32("a"), 5);
  return Buffer.concat([field, Buffer.from(name)]);
}

/** The end record of a large archive, before the position of the other end. */
function end64(entries: number): Uint8Array {
  const bytes = Buffer.alloc(76);
  bytes.writeUInt32LE(0x06064b50, 0);
  bytes.writeBigUInt64LE(BigInt(entries), 32);
  bytes.writeUInt32LE(0x07064b50, 56);
  return bytes;
}

describe("zip is refused", () => {
  test.each<[string, ZipFile[], string]>([
    ["an absolute path", [{ name: "/etc/passwd" }], "absolute"],
    ["a way out", [{ name: "../b" }], '"../b" leads out'],
    ["a symbolic link", [{ name: "l", content: "x", mode: 0o120777 }], '"l" is a symbolic link'],
    ["a device", [{ name: "d", mode: 0o20644 }], "device"],
    ["a name twice", [{ name: "a" }, { name: "a" }], "twice"],
    ["a secret", [{ name: "a", flags: 1 }], "encrypted"],
    ["an unknown method", [{ name: "a", method: 14 }], "method 14"],
    ["another name in the directory", [{ name: "../b", says: { name: "b" } }], "differ"],
    ["a smaller size than it has", [{ name: "a", content: "xxxx", says: { bytes: 2 } }], "does not match its entry"],
    ["a larger size than it has", [{ name: "a", content: "xxxx", says: { bytes: 9 } }], "does not match its entry"],
    ["another checksum", [{ name: "a", content: "xxxx", says: { crc: 1 } }], "does not match its entry"],
    [
      "shared bytes",
      [
        { name: "a", content: "x" },
        { name: "a2", says: { local: 0, name: "a" } },
      ],
      "",
    ],
    ["a folder with content", [{ name: "a/", content: "x" }, { name: "b" }], "has content"],
    ["nothing", [{ name: "a/", stored: true }], "no file"],
    ["another name for those who know Unicode", [{ name: "a", extra: unicodeName("../b") }], "differ"],
    ["another length in the directory", [{ name: "a", content: "xxxx", stored: true, says: { packed: 3 } }], "differ"],
    ["data between its entries", [{ name: "a", gap: zip({ name: "../b" }) }, { name: "c" }], "between its entries"],
    ["something behind its entries", [{ name: "a", gap: zip({ name: "../b" }) }], "between its entries"],
    ["a second end in a remark", [{ name: "a", comment: end64(2) }], "second end"],
  ])("with %s", async (_name, files, message) => {
    await expect(inspect(zip(...files), "zip")).rejects.toThrow(message);
  });

  test("when it is no zip, cut short, or has bytes before or after it", async () => {
    const whole = zip({ name: "a", content: "hello" });
    await expect(inspect(new TextEncoder().encode("hello"), "zip")).rejects.toThrow("not a zip archive");
    await expect(inspect(whole.slice(0, -1), "zip")).rejects.toThrow("end is missing");
    await expect(inspect(Buffer.concat([whole, Buffer.from("x")]), "zip")).rejects.toThrow("end is missing");
    await expect(inspect(Buffer.concat([Buffer.from("x"), whole]), "zip")).rejects.toThrow();
    await expect(inspect(whole.slice(10), "zip")).rejects.toThrow();
  });

  test("when another program could find another directory in it", async () => {
    const [seen, hidden] = [zip({ name: "ok.txt", content: "fine" }), zip({ name: "../txt", content: "evil" })];
    const end = seen.slice(-22);
    const shifted = Buffer.concat([seen.slice(0, -22), hidden.slice(0, -22), end]);
    await expect(inspect(shifted, "zip")).rejects.toThrow("right before its end");
    const remark = hidden.slice(-22);
    const remarked = Buffer.concat([seen, remark, Buffer.from("x")]);
    remarked.writeUInt16LE(remark.length + 1, seen.length - 2);
    await expect(inspect(remarked, "zip")).rejects.toThrow("second end");
  });

  test("when it is a bomb", async () => {
    const zeros = new Uint8Array(40 << 20);
    await expect(inspect(zip({ name: "a", content: zeros }), "zip")).rejects.toThrow("200 times as large");
  }, 120_000);
});

test("damage to a good archive causes no more than a refusal", async () => {
  const good = [
    ["zip", zip({ name: "a/b", content: "hello" }, { name: "c", content: "x".repeat(100), stored: true })],
    [
      "tar.gz",
      tarGz(
        { name: "a/b", content: "hello" },
        { name: "x", type: "x", content: paxRecord("path", "q") },
        { name: "c" },
      ),
    ],
  ] as const;
  for (const [format, bytes] of good)
    for (let at = 0; at < bytes.length; at++) {
      const bad = bytes.slice();
      bad[at] = (bad[at] as number) ^ 0xff;
      await inspect(bad, format).catch((error) => expect(error.name).toBe("ArchiveError"));
    }
}, 60_000);
