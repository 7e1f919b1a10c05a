import { beforeAll, describe, expect, test } from "bun:test";
import sharp from "sharp";
import type { ImageFormat } from "../../src/lib/detection/sniff.ts";
import * as c2pa from "../../src/workers/detector/origin/c2pa.ts";
import { readCbor } from "../../src/workers/detector/origin/cbor.ts";
import { cbor, intoJpeg, intoPng, intoWebp, store, type Value } from "./credentials_kit.ts";

const SOURCE_TYPE = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia";
const image = sharp({ create: { width: 90, height: 70, channels: 3, background: "#a40" } });
const files = {} as Record<"jpeg" | "png" | "webp", Buffer>;
const INTO = { jpeg: intoJpeg, png: intoPng, webp: intoWebp } as const;
const readCredentials = (bytes: Uint8Array, format: ImageFormat) =>
  c2pa.readCredentials(bytes, format, { certificates: null, nowMs: 0 });
const FORMATS = ["jpeg", "png", "webp"] as const;

beforeAll(async () => {
  for (const format of FORMATS) files[format] = await image.clone()[format]().toBuffer();
});

const claim = { claim_generator: "maker/1", claim_generator_info: [{ name: "Maker", version: "1.2" }], alg: "sha256" };
const actions = { actions: [{ action: "c2pa.opened" }, { action: "c2pa.created", digitalSourceType: SOURCE_TYPE }] };
const storeOf = (hash: Value, pad = 0) =>
  store({ claim, assertions: { "c2pa.actions": actions, "c2pa.hash.data": hash, pad: Buffer.alloc(pad) } });

/** Bound to the file as it will be: what is excluded is the store itself, wherever the format puts it. */
function bound(format: (typeof FORMATS)[number], pad = 0): Buffer {
  const file = files[format];
  const start = format === "webp" ? file.length : format === "png" ? 33 : 2;
  const write = (length: number, hash: Uint8Array) =>
    INTO[format](file, storeOf({ exclusions: [{ start, length }], alg: "sha256", hash }, pad));
  const length = write(1_000, Buffer.alloc(32)).length - file.length; // a length takes five bytes, whatever it is
  const blank = write(length, Buffer.alloc(32));
  const hash = new Bun.CryptoHasher("sha256").update(blank.subarray(0, start)).update(blank.subarray(start + length));
  return write(length, hash.digest());
}

describe.each(FORMATS)("%s", (format) => {
  test("the claims of a manifest are read, and its binding to the file is checked", () => {
    const bytes = bound(format);
    expect(readCredentials(bytes, format)).toEqual({
      present: true,
      hash_valid: true,
      claim_generator: "Maker 1.2",
      digital_source_type: "trainedAlgorithmicMedia",
      generator: "Maker 1.2",
      source_signed: false,
      manifests: 1,
      signature: null,
    });
    const changed = bytes.slice();
    const pixel = format === "webp" ? files.webp.length - 5 : changed.length - 20;
    changed[pixel]! ^= 1;
    expect(readCredentials(changed, format)?.hash_valid).toBe(false);
  });

  test("a file without a manifest has none", () => expect(readCredentials(files[format], format)).toBeNull());

  test("a broken manifest is read or not, and nothing is thrown", () => {
    const bytes = bound(format);
    for (let at = 0; at < bytes.length; at += 3) {
      const broken = bytes.slice();
      broken[at] = (broken[at]! + 1 + (at % 250)) & 255;
      readCredentials(broken, format);
      readCredentials(bytes.subarray(0, at), format);
    }
  });
});

test("a manifest store over several segments of a JPEG is joined", () => {
  expect(readCredentials(bound("jpeg", 100_000), "jpeg")).toMatchObject({ hash_valid: true });
});

test("exclusions outside the file are no binding", () => {
  const hash = { exclusions: [{ start: 5, length: 1e9 }], alg: "sha256", hash: Buffer.alloc(32) };
  const bytes = intoPng(files.png, storeOf(hash));
  expect(readCredentials(bytes, "png")?.hash_valid).toBe(false);
});

test("empty boxes count as present and give no claims", () => {
  const bytes = intoPng(files.png, Buffer.from("\0\0\0\x08jumb", "latin1"));
  expect(readCredentials(bytes, "png")).toEqual({
    present: true,
    hash_valid: null,
    claim_generator: null,
    digital_source_type: null,
    generator: null,
    source_signed: false,
    manifests: 0,
    signature: null,
  });
});

test("the newest manifest that names a source type counts, also below manifests that only opened the file", () => {
  const opened = { "c2pa.actions": { actions: [{ action: "c2pa.opened" }] } };
  const created = (agent: Value) => ({
    "c2pa.actions.v2": { actions: [{ action: "c2pa.created", digitalSourceType: SOURCE_TYPE, softwareAgent: agent }] },
  });
  const read = (...manifests: Parameters<typeof store>) =>
    readCredentials(intoPng(files.png, store(...manifests)), "png");
  const first = { claim: { claim_generator: "first/1" }, assertions: created({ name: "Image Model" }) };
  const copy = { claim: { claim_generator: "copy/1" }, assertions: opened };
  expect(read(first, copy, copy)).toMatchObject({
    claim_generator: "copy/1",
    digital_source_type: "trainedAlgorithmicMedia",
    generator: "Image Model",
    manifests: 3,
  });
  expect(read({ ...first, assertions: created("Text Model") }, copy)).toMatchObject({ generator: "Text Model" });
  expect(read(copy, first)).toMatchObject({ claim_generator: "first/1", generator: "Image Model", manifests: 2 });
  expect(read(copy)).toMatchObject({ digital_source_type: null, generator: null });
});

describe("CBOR", () => {
  const read = (hex: string) => readCbor(Buffer.from(hex, "hex"));

  test.each<[string, unknown]>([
    ["1903e8", 1000],
    ["3863", -100],
    ["1bffffffffffffffff", 18446744073709551615n],
    ["fb3ff199999999999a", 1.1],
    ["f5", true],
    ["c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"],
    ["9f018202039f0405ffff", [1, [2, 3], [4, 5]]],
    ["bf61610161629f0203ffff", { a: 1, b: [2, 3] }],
    ["7f657374726561646d696e67ff", "streaming"],
  ])("%s, an example of the RFC", (hex, value) => expect(read(hex)).toEqual(value as never));

  test.each(["5b7fffffffffffffff00", "9b00ffffffffffffff", "bb00ffffffffffff", "1c", "ff", "7f01", ""])(
    "%s is refused",
    (hex) => expect(() => read(hex)).toThrow(),
  );

  test("the depth is limited", () => expect(() => read("81".repeat(5_000))).toThrow("deeply"));
  test("written values are read back", () => expect(readCbor(cbor(claim))).toEqual(claim));
});
