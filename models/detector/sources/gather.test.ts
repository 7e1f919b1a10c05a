import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import sharp from "sharp";
import { Gathering } from "./gather.ts";
import { Likenesses, likenessHash } from "./likeness.ts";
import { isExcluded, readManifest, readSource, type Source } from "./manifest.ts";
import { entriesOf, gitDirectory, matcher } from "./mirror.ts";

const home = mkdtempSync(join(tmpdir(), "verk-gather-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));

/** Blobs of colour that no other seed has in the same places. */
async function picture(seed: number, side = 256): Promise<Buffer> {
  const bytes = (part: number) => new Bun.CryptoHasher("sha512").update(`${seed} ${part}`).digest();
  const raw = Buffer.concat([bytes(0), bytes(1)]).subarray(0, 6 * 6 * 3);
  return sharp(raw, { raw: { width: 6, height: 6, channels: 3 } })
    .resize(side, side, { kernel: "cubic" })
    .png()
    .toBuffer();
}

const jpeg = (png: Buffer, side: number) => sharp(png).resize(side, side).jpeg({ quality: 60 }).toBuffer();

async function mirror(repo: string, files: Record<string, Buffer>): Promise<string> {
  const directory = join(home, "mirrors", repo.replace("/", "+"), "repo");
  for (const [path, bytes] of Object.entries(files)) {
    mkdirSync(join(directory, path, ".."), { recursive: true });
    writeFileSync(join(directory, path), bytes);
  }
  const git = (...args: string[]) => {
    const done = Bun.spawnSync(["git", "-C", directory, "-c", "user.name=a", "-c", "user.email=a@b", ...args]);
    if (!done.success) throw new Error(done.stderr.toString());
    return done.stdout.toString().trim();
  };
  git("init", "-q");
  git("add", ".");
  git("commit", "-qm", "all");
  return git("rev-parse", "HEAD");
}

function source(id: string, repo: string, commit: string, more: Partial<Source> = {}): Source {
  const base = { licence: "none stated", paths: ["img/**"], label: "real", family: "real", content: "photo" } as const;
  return { source: id, repo, commit, ...base, paths: [...base.paths], files: 1, size: "256x256", ...more };
}

let first: Source;
let second: Source;
beforeAll(async () => {
  const [a, b, c, d] = await Promise.all([1, 2, 3, 4].map((seed) => picture(seed)));
  const photos = { "img/a.png": a!, "img/b.png": b!, "img/again.png": a!, "img/pointer.png": Buffer.from("version 1") };
  first = source("photos", "ada/photos", await mirror("ada/photos", { ...photos, "other/c.png": c! }));
  const more = {
    "img/small.png": await picture(5, 100),
    "img/flat.png": await sharp({ create: { width: 300, height: 300, channels: 3, background: "red" } })
      .png({ compressionLevel: 0 })
      .toBuffer(),
  };
  const made = {
    "img/near.jpg": await jpeg(a!, 200),
    "img/d.png": d!,
    "img/text.png": Buffer.alloc(4000, "x"),
    ...more,
  };
  second = source("made", "ada/made", await mirror("ada/made", made), { label: "generated", family: "flux" });
});

const gather = (out: string, cap = 400) => new Gathering(join(home, "mirrors"), join(home, out), cap);
const directoryOf = (of: Source) => gitDirectory(join(home, "mirrors"), of.repo)!;

test("a source gives each of its images once, without pointers to files elsewhere", async () => {
  const { rows, outcome } = await gather("once").take(first, directoryOf(first));
  expect(rows.map((row) => row.path).sort()).toEqual(["img/a.png", "img/b.png"]);
  expect(outcome).toEqual({ source: "photos", taken: 2, copies: 0, conflicts: [], unreadable: 0, small: 0 });
  const [row] = rows;
  expect(row).toMatchObject({
    source: "photos",
    label: "real",
    family: "real",
    content: "photo",
    width: 256,
    height: 256,
  });
  const bytes = readFileSync(join(home, "once", row!.file));
  expect(new Bun.CryptoHasher("sha256").update(bytes).digest("hex")).toBe(row!.sha256);
});

test("a smaller, re-encoded copy in another source is left out and named when the labels differ", async () => {
  const gathering = gather("copies");
  await gathering.take(first, directoryOf(first));
  const { rows, outcome } = await gathering.take(second, directoryOf(second));
  expect(rows.map((row) => row.path)).toEqual(["img/d.png"]);
  expect(outcome).toEqual({
    source: "made",
    taken: 1,
    copies: 1,
    conflicts: ["img/near.jpg ~ photos"],
    unreadable: 2,
    small: 1,
  });
});

test("a second run goes on after the first and knows its images", async () => {
  await gather("resumed").take(first, directoryOf(first));
  const again = gather("resumed");
  expect(again.resume(second)).toBeUndefined();
  expect(again.resume(first)).toHaveLength(2);
  expect((await again.take(second, directoryOf(second))).outcome.copies).toBe(1);
  expect(existsSync(join(home, "resumed/sources/made.jsonl"))).toBe(true);
});

test("a source gives no more images than the cap, the same ones each time", async () => {
  const one = await gather("cap1", 1).take(first, directoryOf(first));
  const two = await gather("cap2", 1).take(first, directoryOf(first));
  expect(one.rows).toHaveLength(1);
  expect(two.rows[0]!.sha256).toBe(one.rows[0]!.sha256);
});

test("patterns take away as well as add, and a mirror may be a bare directory or a clone", async () => {
  const matches = matcher(["img/**/*.{png,jpg}", "!**/thumb*"]);
  expect(["img/a.png", "img/x/b.jpg", "img/thumb.png", "c.png"].map(matches)).toEqual([true, true, false, false]);
  expect(gitDirectory(join(home, "mirrors"), "ada/nowhere")).toBeUndefined();
  expect(await entriesOf(directoryOf(first), { commit: first.commit, paths: ["none/**"] })).toEqual([]);
});

test("different pictures are not alike, copies are", async () => {
  const known = new Likenesses<number>();
  for (let seed = 0; seed < 40; seed++) {
    const image = await picture(seed);
    expect(known.find(await likenessHash(image))).toBeUndefined();
    known.add(await likenessHash(image), seed);
  }
  expect(known.find(await likenessHash(await jpeg(await picture(7), 173)))).toBe(7);
});

test("a wrong line of a list is refused with its field", () => {
  const line = (more: object) => JSON.stringify({ ...first, ...more });
  expect(readSource(line({}))).toEqual(first);
  expect(() => readSource(line({ label: "fake" }))).toThrow("label");
  expect(() => readSource(line({ family: "flux" }))).toThrow("does not fit");
  expect(() => readSource(line({ commit: "main" }))).toThrow("commit");
  expect(() => readSource(line({ paths: [] }))).toThrow("paths");
});

for (const list of ["images", "audio"])
  test(`the list of ${list} is sorted, has each source once, and no source that is kept for the independent test`, () => {
    const sources = readManifest(join(import.meta.dir, `${list}.jsonl`));
    const names = sources.map((each) => each.source);
    expect(names).toEqual([...names].sort());
    const kept = new Set(readFileSync(join(import.meta.dir, "kept_apart.txt"), "utf8").split("\n"));
    expect(kept.size).toBeGreaterThan(20);
    expect(sources.filter((each) => isExcluded(each.repo, kept)).map((each) => each.repo)).toEqual([]);
  });
