/** The header structure of RPM 4: an index of tags, and a store that holds their values. */
type Value =
  | { type: "int16" | "int32"; values: readonly number[] }
  | { type: "string"; value: string }
  | { type: "strings" | "translated"; values: readonly string[] }
  | { type: "bytes"; value: Uint8Array };
export type Tags = ReadonlyMap<number, Value>;

const CODES = { int16: 3, int32: 4, string: 6, bytes: 7, strings: 8, translated: 9 } as const;
const WIDTHS: Partial<Record<Value["type"], number>> = { int16: 2, int32: 4 };
const ENTRY_BYTES = 16;

/** The tag of the region that a digest covers: that of the signature, and that of the main header. */
export const REGION = { signature: 62, main: 63 } as const;

export const int16 = (...values: number[]): Value => ({ type: "int16", values });
export const int32 = (...values: number[]): Value => ({ type: "int32", values });
export const string = (value: string): Value => ({ type: "string", value });
export const strings = (values: readonly string[]): Value => ({ type: "strings", values });
export const translated = (value: string): Value => ({ type: "translated", values: [value] });
export const bytes = (value: Uint8Array): Value => ({ type: "bytes", value });

const terminated = (text: string) => new TextEncoder().encode(`${text}\0`);

function encoded(value: Value): { data: Uint8Array; count: number } {
  if (value.type === "string") return { data: terminated(value.value), count: 1 };
  if (value.type === "bytes") return { data: value.value, count: value.value.byteLength };
  if (value.type === "strings" || value.type === "translated")
    return { data: Buffer.concat(value.values.map(terminated)), count: value.values.length };
  const width = WIDTHS[value.type] ?? 1;
  const data = Buffer.alloc(width * value.values.length);
  for (const [i, each] of (value.values as readonly number[]).entries()) {
    if (width === 2) data.writeUInt16BE(each, i * width);
    else data.writeUInt32BE(each >>> 0, i * width);
  }
  return { data, count: value.values.length };
}

const entry = (tag: number, type: number, offset: number, count: number) => {
  const out = Buffer.alloc(ENTRY_BYTES);
  out.writeUInt32BE(tag, 0);
  out.writeUInt32BE(type, 4);
  out.writeInt32BE(offset, 8);
  out.writeUInt32BE(count, 12);
  return out;
};

/** The region tag stands first in the index. Its value, at the end of the store, points back over the whole index. */
export function rpmHeader(tags: Tags, region: number): Uint8Array {
  const index: Uint8Array[] = [];
  const store: Uint8Array[] = [];
  let size = 0;
  const put = (data: Uint8Array, alignment: number) => {
    const gap = (alignment - (size % alignment)) % alignment;
    store.push(new Uint8Array(gap), data);
    size += gap + data.byteLength;
    return size - data.byteLength;
  };
  for (const [tag, value] of [...tags].sort(([a], [b]) => a - b)) {
    const { data, count } = encoded(value);
    index.push(entry(tag, CODES[value.type], put(data, WIDTHS[value.type] ?? 1), count));
  }
  const entries = index.length + 1;
  const trailer = entry(region, CODES.bytes, -entries * ENTRY_BYTES, ENTRY_BYTES);
  const first = entry(region, CODES.bytes, put(trailer, 1), ENTRY_BYTES);
  const intro = Buffer.alloc(16);
  intro.set([0x8e, 0xad, 0xe8, 0x01]);
  intro.writeUInt32BE(entries, 8);
  intro.writeUInt32BE(size, 12);
  return Buffer.concat([intro, first, ...index, ...store]);
}
