import { expect, test } from "bun:test";
import { readExif } from "./exif.ts";

type Entry = { tag: number; type?: number; count?: number; value: number | Uint8Array };
const text = (value: string) => new TextEncoder().encode(value);

/** A TIFF with one directory, and one of EXIF behind it if `inner` is given. Longer values lie behind both. */
function tiff(entries: readonly Entry[], { little = true, inner = [] as readonly Entry[] } = {}): Uint8Array {
  const bytes = new Uint8Array(2_000);
  const view = new DataView(bytes.buffer);
  bytes.set(text(little ? "II" : "MM"));
  view.setUint16(2, 42, little);
  view.setUint32(4, 8, little);
  let free = 1_000;
  const put = (at: number, list: readonly Entry[]) => {
    view.setUint16(at, list.length, little);
    for (const [i, { tag, type = 2, count, value }] of list.entries()) {
      const entry = at + 2 + i * 12;
      const size = typeof value === "number" ? 1 : value.length;
      view.setUint16(entry, tag, little);
      view.setUint16(entry + 2, type, little);
      view.setUint32(entry + 4, count ?? size, little);
      if (typeof value === "number") view.setUint32(entry + 8, value, little);
      else if (size <= 4) bytes.set(value, entry + 8);
      else {
        view.setUint32(entry + 8, free, little);
        bytes.set(value, free);
        free += size;
      }
    }
  };
  const isNested = inner.length > 0;
  put(8, isNested ? [...entries, { tag: 0x8769, type: 4, value: 500 }] : entries);
  if (isNested) put(500, inner);
  return bytes;
}

test.each([true, false])("the fields of both directories are read (little endian: %p)", (little) => {
  const bytes = tiff(
    [
      { tag: 271, value: text("Maker\0rest") },
      { tag: 272, value: text(" Mod ") },
      { tag: 305, value: text("abc\0") },
      { tag: 305, value: text("again") },
      { tag: 999, value: text("other") },
    ],
    { little, inner: [{ tag: 315, value: text("Somebody") }] },
  );
  const fields = { make: "Maker", model: "Mod", software: "abc", artist: "Somebody" };
  expect(readExif(bytes)).toEqual(fields);
  expect(readExif(Uint8Array.from([...text("Exif\0\0"), ...bytes]))).toEqual(fields);
});

const utf16 = (value: string, little: boolean) => {
  const bytes = new Uint8Array(value.length * 2);
  const view = new DataView(bytes.buffer);
  for (const [i, char] of [...value].entries()) view.setUint16(2 * i, char.charCodeAt(0), little);
  return bytes;
};
const comment = (encoding: string, value: Uint8Array, little = true) =>
  readExif(
    tiff([{ tag: 37510, type: 7, value: Uint8Array.from([...text(encoding.padEnd(8, "\0")), ...value]) }], { little }),
  ).comment;

test("a comment is in the encoding that it names; the byte order is that of its text", () => {
  expect(comment("ASCII", text("made by"))).toBe("made by");
  for (const order of [true, false])
    for (const written of [true, false])
      expect(comment("UNICODE", utf16("AI drew this", written), order)).toBe("AI drew this");
  for (const order of [true, false]) expect(comment("UNICODE", utf16("絵が", order), order)).toBe("絵が");
});

test("what is no EXIF has no fields, and lies of offsets end nothing but themselves", () => {
  expect([readExif(text("II")), readExif(text("XX*\0\0\0\0\0"))]).toEqual([{}, {}]);
  const loop = tiff([
    { tag: 0x8769, type: 4, value: 8 },
    { tag: 271, value: text("Maker") },
  ]);
  expect(readExif(loop)).toEqual({ make: "Maker" });
  const far = tiff([
    { tag: 0x8769, type: 4, value: 1_999 },
    { tag: 272, type: 2, count: 50, value: 5_000 },
  ]);
  expect(readExif(far)).toEqual({ model: "" });
  expect(readExif(tiff([{ tag: 271, type: 99, count: 9, value: text("abcd") }]))).toEqual({ make: "" });
});
