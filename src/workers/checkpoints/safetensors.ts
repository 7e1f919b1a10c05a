/**
 * The safetensors format: eight bytes with the header's length, a JSON header, then the tensors without a gap. The
 * reader accepts only what the format allows: every byte belongs to exactly one tensor, so that nothing hides in a
 * file.
 */
export class SafetensorsError extends Error {
  override name = "SafetensorsError";
}

// biome-ignore format: a table should look like one
const DTYPE_BYTES: Readonly<Record<string, number>> = {
  BOOL: 1, U8: 1, I8: 1, F8_E5M2: 1, F8_E4M3: 1,
  I16: 2, U16: 2, F16: 2, BF16: 2, I32: 4, U32: 4, F32: 4, I64: 8, U64: 8, F64: 8,
};
const MAX_HEADER_BYTES = 100_000_000;
const LENGTH_BYTES = 8;

/** `shape` has the slowest dimension first: rows, then columns. */
export type TensorSpec = { name: string; dtype: string; shape: readonly number[] };
/** `start` counts from the beginning of the file. */
export type PlacedTensor = TensorSpec & { start: number; bytes: number };
export type SafetensorsHeader = {
  metadata: ReadonlyMap<string, string>;
  tensors: ReadonlyMap<string, PlacedTensor>;
};

/** Returns the bytes before the tensors, which follow in the order given. Padding aligns them to a multiple of 8. */
export function encodeSafetensorsHeader(
  tensors: readonly TensorSpec[],
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array {
  const header = new Map<string, unknown>([["__metadata__", metadata]]);
  let at = 0;
  for (const { name, dtype, shape } of tensors) {
    if (header.has(name)) throw new SafetensorsError(`Tensor ${shown(name)} appears twice`);
    const end = at + byteLength({ name, dtype, shape });
    header.set(name, { dtype, shape, data_offsets: [at, end] });
    at = end;
  }
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(header)));
  const length = Math.ceil(json.byteLength / 8) * 8;
  const out = new Uint8Array(LENGTH_BYTES + length).fill(0x20);
  new DataView(out.buffer).setBigUint64(0, BigInt(length), true);
  out.set(json, LENGTH_BYTES);
  return out;
}

/** Returns the header, or how many bytes of the file's beginning are needed. Throws only SafetensorsError. */
export function parseSafetensors(bytes: Uint8Array, fileSize: number): SafetensorsHeader | { need: number } {
  if (fileSize < LENGTH_BYTES) throw new SafetensorsError(`The file has ${fileSize} bytes, too few for a header`);
  if (bytes.byteLength < LENGTH_BYTES) return { need: LENGTH_BYTES };
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const dataStart = LENGTH_BYTES + length;
  if (length < 2 || length > MAX_HEADER_BYTES || dataStart > fileSize)
    throw new SafetensorsError(`The header claims ${length} bytes, but the file has ${fileSize}`);
  if (bytes.byteLength < dataStart) return { need: dataStart };
  const entries = Object.entries(readJson(bytes.subarray(LENGTH_BYTES, dataStart)));
  const tensors = entries
    .filter(([name]) => name !== "__metadata__")
    .map(([name, entry]) => place(name, entry, dataStart));
  tensors.sort((a, b) => a.start - b.start || a.bytes - b.bytes);
  let at = dataStart;
  for (const { name, start, bytes: size } of tensors) {
    if (start !== at)
      throw new SafetensorsError(`Tensor ${shown(name)} begins at byte ${start}, but the one before it ends at ${at}`);
    at += size;
  }
  if (at !== fileSize) throw new SafetensorsError(`The tensors end at byte ${at}, but the file has ${fileSize} bytes`);
  const metadata = readMetadata(entries.find(([name]) => name === "__metadata__")?.[1]);
  return { metadata, tensors: new Map(tensors.map((tensor) => [tensor.name, tensor])) };
}

function readJson(bytes: Uint8Array): object {
  if (bytes[0] !== 0x7b) throw new SafetensorsError("The header does not begin with {");
  try {
    // it begins with {, so it is an object
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as object;
  } catch {
    throw new SafetensorsError("The header is not JSON");
  }
}

function readMetadata(metadata: unknown): ReadonlyMap<string, string> {
  if (metadata === undefined) return new Map();
  if (
    typeof metadata !== "object" ||
    metadata === null ||
    Object.values(metadata).some((value) => typeof value !== "string")
  )
    throw new SafetensorsError("__metadata__ must be an object of strings");
  return new Map(Object.entries(metadata as Record<string, string>));
}

function place(name: string, entry: unknown, dataStart: number): PlacedTensor {
  const { dtype, shape, data_offsets: offsets } = (entry ?? {}) as Record<string, unknown>;
  const counts = (value: unknown): value is number[] =>
    Array.isArray(value) && value.every((each) => Number.isSafeInteger(each) && each >= 0);
  if (typeof dtype !== "string" || !counts(shape) || !counts(offsets) || offsets.length !== 2)
    throw new SafetensorsError(`Tensor ${shown(name)} must have dtype, shape and two data_offsets`);
  const [begin = 0, end = 0] = offsets;
  const bytes = byteLength({ name, dtype, shape });
  if (end - begin !== bytes)
    throw new SafetensorsError(`Tensor ${shown(name)} has ${end - begin} bytes, but its shape and type need ${bytes}`);
  return { name, dtype, shape, start: dataStart + begin, bytes };
}

function byteLength({ name, dtype, shape }: TensorSpec): number {
  const size = Object.hasOwn(DTYPE_BYTES, dtype) ? DTYPE_BYTES[dtype] : undefined;
  if (size === undefined) throw new SafetensorsError(`Tensor ${shown(name)} has the unknown type ${shown(dtype)}`);
  const bytes = shape.reduce((product, each) => product * each, size);
  if (!Number.isSafeInteger(bytes)) throw new SafetensorsError(`Tensor ${shown(name)} is larger than any file`);
  return bytes;
}

/** Names come from the file, so they are shortened and escaped. */
const shown = (name: string) => JSON.stringify(name.slice(0, 80));
