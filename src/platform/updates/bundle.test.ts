import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomFor, sweep } from "../../../test/sweep.ts";
import { compareVersions } from "./manifest.ts";
import { generateKey, publicKeyFile, publicKeyLine } from "./minisign/keys.ts";
import { sign } from "./minisign/signature.ts";
import { openBundle } from "./read_bundle.ts";
import { parseStamp, readStamp, type Stamp, stampText } from "./stamp.ts";
import { trustedKeys } from "./trust.ts";
import { writeBundle } from "./write_bundle.ts";

const dir = mkdtempSync(join(tmpdir(), "verk-bundle-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const key = generateKey();
const out = join(dir, "verk.bundle");
const stamp: Stamp = {
  version: "1.2.3",
  database_version: 60,
  target: "linux-one",
  commit: "abc123",
  built_at: "2026-11-17T00:00:00.000Z",
};
/** A file that `readStamp` takes for an executable. The mark alone comes before, as in a real one. */
function executable(name: string, more: Partial<Stamp> = {}): string {
  const path = join(dir, name);
  writeFileSync(path, `verk-stamp|${"x".repeat(700)}${stampText({ ...stamp, ...more })}${"y".repeat(300)}`);
  return path;
}
beforeAll(async () => {
  writeFileSync(join(dir, "guide.md"), "guide");
  writeFileSync(join(dir, "empty"), "");
  const manifest = await writeBundle({
    out,
    executables: [executable("one"), executable("two", { target: "linux-two" })],
    contents: [
      { kind: "document", path: "docs/guide.md", from: join(dir, "guide.md") },
      { kind: "model", path: "models/empty.gguf", from: join(dir, "empty") },
    ],
    key,
  });
  expect(manifest).toMatchObject({ version: "1.2.3", database_version: 60 });
});

async function verified(path: string, keys = [key as Parameters<typeof openBundle>[1][number]]) {
  const bundle = await openBundle(path, keys);
  try {
    await bundle.check();
    return bundle;
  } finally {
    await bundle.close();
  }
}

function changed(change: (bytes: Buffer) => Buffer): string {
  const path = join(dir, "changed.bundle");
  writeFileSync(path, change(readFileSync(out)));
  return path;
}

describe("a bundle", () => {
  test("holds one executable for each platform and what travels with them", async () => {
    const { manifest } = await verified(out);
    expect(manifest.files.map(({ path, kind, target }) => [path, kind, target])).toEqual([
      ["verk-linux-one", "executable", "linux-one"],
      ["verk-linux-two", "executable", "linux-two"],
      ["docs/guide.md", "document", null],
      ["models/empty.gguf", "model", null],
    ]);
    const bundle = await openBundle(out, [key]);
    const [first] = bundle.manifest.files;
    if (!first) throw new Error("no file");
    await bundle.extract(first, join(dir, "extracted"));
    await bundle.close();
    expect(readFileSync(join(dir, "extracted"))).toEqual(readFileSync(join(dir, "one")));
    expect(statSync(join(dir, "extracted")).mode & 0o777).toBe(0o755);
  });

  test("is the same file when it is made again", async () => {
    const again = join(dir, "again.bundle");
    const contents = [
      { kind: "document" as const, path: "docs/guide.md", from: join(dir, "guide.md") },
      { kind: "model" as const, path: "models/empty.gguf", from: join(dir, "empty") },
    ];
    await writeBundle({ out: again, executables: [join(dir, "one"), join(dir, "two")], contents, key });
    expect(readFileSync(again).equals(readFileSync(out))).toBe(true);
  });

  test("can be read with tar and minisign alone", () => {
    const to = join(dir, "untarred");
    mkdirSync(to);
    expect(Bun.spawnSync(["tar", "xf", out, "-C", to]).exitCode).toBe(0);
    expect(readFileSync(join(to, "docs/guide.md"), "utf8")).toBe("guide");
    if (Bun.which("minisign") === null) return console.error("minisign is not installed: its check is skipped");
    writeFileSync(join(dir, "release.pub"), publicKeyFile(key));
    const run = Bun.spawnSync(["minisign", "-V", "-p", join(dir, "release.pub"), "-m", "manifest.json"], { cwd: to });
    expect(run.exitCode).toBe(0);
  });
});

describe("a bundle is refused", () => {
  test("with one flipped bit, wherever it is", async () => {
    const random = randomFor("bundle bits");
    const { size } = statSync(out);
    for (let i = 0; i < sweep({ quick: 300, full: 5_000 }); i++) {
      const bit = Math.floor(random() * size * 8);
      const path = changed((bytes) => {
        bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        return bytes;
      });
      const error = await verified(path).then(
        () => undefined,
        (error: Error) => error,
      );
      expect(error, `bit ${bit}`).toMatchObject({ name: "UsageError" });
    }
  });

  test("if it is cut anywhere, or longer", async () => {
    const { size } = statSync(out);
    for (let length = 0; length < size; length += 311)
      await expect(verified(changed((bytes) => bytes.subarray(0, length)))).rejects.toThrow(
        /not complete|not a bundle/,
      );
    await expect(verified(changed((bytes) => Buffer.concat([bytes, Buffer.alloc(1)])))).rejects.toThrow("should have");
  });

  test("if its key is foreign, also one with the same id", async () => {
    const foreign = generateKey();
    await expect(verified(out, [foreign])).rejects.toThrow("not trusted here");
    await expect(verified(out, [{ ...foreign, id: key.id }])).rejects.toThrow("does not match");
    await expect(verified(out, [])).rejects.toThrow("no key to verify");
  });

  test("if the signature is of another file of the same key", async () => {
    const path = changed((bytes) => {
      const size = Number.parseInt(bytes.toString("latin1", 124, 135), 8);
      const manifest = bytes.subarray(512, 512 + size);
      const at = 1024 + Math.ceil(size / 512) * 512;
      const length = Number.parseInt(bytes.toString("latin1", at - 512 + 124, at - 512 + 135), 8);
      const other = sign(manifest, key, "x".repeat(92));
      expect(other.length).toBe(length);
      bytes.write(other, at);
      return bytes;
    });
    await expect(verified(path)).rejects.toThrow("made for something else");
  });

  test("if the file is not a bundle, or not there", async () => {
    const path = join(dir, "noise");
    writeFileSync(path, Buffer.alloc(5000, 7));
    await expect(verified(path)).rejects.toThrow("not a bundle");
    await expect(verified(join(dir, "absent"))).rejects.toThrow("Cannot read");
  });
});

describe("making a bundle", () => {
  const make = (...executables: string[]) =>
    writeBundle({ out: join(dir, "wrong.bundle"), executables, contents: [], key });

  test("refuses executables of two builds, two of one platform, and other files", async () => {
    const one = executable("one");
    await expect(make(one, executable("newer", { target: "linux-two", version: "1.2.4" }))).rejects.toThrow(
      "one commit",
    );
    await expect(make(one, executable("same"))).rejects.toThrow("second executable");
    await expect(make(join(dir, "guide.md"))).rejects.toThrow("not an executable");
    await expect(make()).rejects.toThrow("--executable is missing");
  });
});

test("a stamp is found behind any number of bytes", () => {
  const path = join(dir, "far");
  writeFileSync(path, Buffer.concat([Buffer.alloc(4 * 2 ** 20 - 20, 1), Buffer.from(stampText(stamp))]));
  expect(readStamp(path)).toEqual(stamp);
  expect(parseStamp("verk-stamp|1.2|60|")).toBeUndefined();
});

test("keys come from the build and from the configuration", () => {
  const other = generateKey();
  const ids = trustedKeys({ updates: { trusted_keys: [publicKeyLine(other)] } }, publicKeyLine(key)).map(
    ({ id }) => id,
  );
  expect(ids).toEqual([key.id, other.id]);
  expect(trustedKeys({ updates: { trusted_keys: [] } }, "")).toEqual([]);
});

test("versions are ordered by the rules of semantic versioning", () => {
  const order = ["0.9.9", "0.10.0-rc.2", "0.10.0-rc.10", "0.10.0-rc.x", "0.10.0", "1.0.0-a", "1.0.0-a.1", "1.0.0"];
  for (const [i, a] of order.entries())
    for (const [j, b] of order.entries())
      expect(Math.sign(compareVersions(a, b)), `${a} and ${b}`).toBe(Math.sign(i - j));
});
