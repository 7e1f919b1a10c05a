import { expect, test } from "bun:test";
import { encodeSafetensorsHeader, parseSafetensors, SafetensorsError, type TensorSpec } from "./safetensors.ts";

const SPECS: TensorSpec[] = [
  { name: "b", dtype: "F32", shape: [2, 3] },
  { name: "a", dtype: "BF16", shape: [5] },
  { name: "one", dtype: "I64", shape: [] },
  { name: "none", dtype: "U8", shape: [0, 4] },
];
const CONTENT_BYTES = 24 + 10 + 8;

/** A file with this header text and `content` bytes of tensors. */
function file(header: string, content: number): Uint8Array {
  const json = new TextEncoder().encode(header);
  const bytes = new Uint8Array(8 + json.byteLength + content);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(json.byteLength), true);
  bytes.set(json, 8);
  return bytes;
}
const one = (entry: object, content: number) => file(JSON.stringify({ a: entry }), content);
const parse = (bytes: Uint8Array) => parseSafetensors(bytes, bytes.byteLength);

test("a header is read back as written, and tensors follow each other from a multiple of 8", () => {
  const header = encodeSafetensorsHeader(SPECS, { format: "pt" });
  const parsed = parseSafetensors(header, header.byteLength + CONTENT_BYTES);
  if ("need" in parsed) throw new Error("the header was whole");
  expect(header.byteLength % 8).toBe(0);
  expect([...parsed.metadata]).toEqual([["format", "pt"]]);
  const starts = [0, 24, 34, 42].map((at) => header.byteLength + at);
  expect(SPECS.map(({ name }) => parsed.tensors.get(name))).toEqual(
    SPECS.map((spec, i) => ({ ...spec, start: starts[i]!, bytes: [24, 10, 8, 0][i]! })),
  );
});

test("for a header that is too short, the reader states how many bytes it needs", () => {
  const header = encodeSafetensorsHeader(SPECS);
  expect(parseSafetensors(header.subarray(0, 4), 1000)).toEqual({ need: 8 });
  expect(parseSafetensors(header.subarray(0, 20), 1000)).toEqual({ need: header.byteLength });
});

test("a tensor may be called __proto__", () => {
  const header = encodeSafetensorsHeader([{ name: "__proto__", dtype: "F32", shape: [1] }]);
  const parsed = parseSafetensors(header, header.byteLength + 4);
  expect("need" in parsed ? [] : [...parsed.tensors.keys()]).toEqual(["__proto__"]);
});

test("the same name twice is refused when writing", () => {
  expect(() => encodeSafetensorsHeader([SPECS[0]!, SPECS[0]!])).toThrow(SafetensorsError);
});

const f32 = (from: number, to: number, shape = [(to - from) / 4]) => ({
  dtype: "F32",
  shape,
  data_offsets: [from, to],
});

test.each([
  ["nothing", new Uint8Array(0), "too few"],
  ["a header longer than the file", new Uint8Array([255, 0, 0, 0, 0, 0, 0, 0, 0x7b]), "claims 255 bytes"],
  ["a header of 2^63 bytes", new Uint8Array([0, 0, 0, 0, 0, 0, 0, 128, 0x7b]), "claims"],
  ["no JSON", file("{oops}", 0), "not JSON"],
  ["an array", file("[1,2]", 0), "does not begin with {"],
  ["broken characters", new Uint8Array([4, 0, 0, 0, 0, 0, 0, 0, 0x7b, 0xff, 0xff, 0x7d]), "not JSON"],
  ["an unknown type", one({ dtype: "F12", shape: [1], data_offsets: [0, 4] }, 4), "unknown type"],
  ["a type of the object's own", one({ dtype: "constructor", shape: [1], data_offsets: [0, 4] }, 4), "unknown type"],
  ["a negative size", one(f32(0, 4, [-1]), 4), "must have"],
  ["a fraction", one(f32(0, 6, [1.5]), 6), "must have"],
  ["one offset", one({ dtype: "F32", shape: [1], data_offsets: [0] }, 4), "must have"],
  ["no entry", file('{"a":null}', 0), "must have"],
  ["a size that does not fit its shape", one(f32(0, 8, [1]), 8), "has 8 bytes"],
  ["offsets in the wrong order", one({ dtype: "F32", shape: [0], data_offsets: [4, 0] }, 4), "has -4 bytes"],
  ["more elements than numbers can count", one(f32(0, 4, [2 ** 40, 2 ** 40]), 4), "larger than any file"],
  ["a tensor beyond the end", one(f32(0, 8), 4), "end at byte"],
  ["bytes that belong to none", one(f32(0, 4), 8), "end at byte"],
  ["a hole", file(JSON.stringify({ a: f32(0, 4), b: f32(8, 12) }), 12), "begins at byte"],
  ["an overlap", file(JSON.stringify({ a: f32(0, 8), b: f32(4, 12) }), 12), "begins at byte"],
  [
    "the same name twice",
    file(
      '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}',
      2,
    ),
    "begins at byte",
  ],
  ["metadata that is no text", file('{"__metadata__":{"a":1}}', 0), "strings"],
])("%s is refused", (_name, bytes, words) => {
  expect(() => parse(bytes)).toThrow(SafetensorsError);
  expect(() => parse(bytes)).toThrow(words);
});
