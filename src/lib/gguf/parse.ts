/**
 * Parses the header of a GGUF file (version 2 and 3, little endian) before native code reads it. Pure and bounded:
 * every count, length, offset and shape is checked against the file's size before use, and arrays are not stored. A
 * file that would make native code abort is rejected here with a message.
 */
import { createDistinct } from "./distinct.ts";
import { createReader, GgufError, NeedMore, type Reader } from "./reader.ts";
import { SCALAR_BYTES, TENSOR_TYPES, type TensorType, VALUE_TYPES, type ValueType } from "./types.ts";

export { GgufError } from "./reader.ts";

export const LIMITS = {
  headerBytes: 512 * 2 ** 20,
  stringBytes: 16 * 2 ** 20,
  keyBytes: 65_535,
  nameBytes: 63, // a native name has room for 64 bytes with its terminator
  keys: 4096,
  tensors: 16_384, // native code compares every pair of names
  arrayElements: 8 * 2 ** 20,
  tokens: 4 * 2 ** 20, // the table that finds duplicates takes 24 to 48 bytes for each
  keptNumbers: 1024, // numbers kept of an array; longer ones are only counted
  alignment: 65_536,
} as const;

const TOKENS = "tokenizer.ggml.tokens";

/** A scanned array: its numbers are kept only if there are few. */
export type GgufArray = { of: ValueType; length: number; numbers: readonly number[] | undefined };
export type GgufValue = number | bigint | boolean | string | GgufArray;
export type Typed = { type: ValueType; value: GgufValue };

export type Tensor = {
  name: string;
  type: TensorType;
  /** 1 to 4 dimensions, fastest first, as in the file. */
  dims: readonly number[];
  elements: number;
  bytes: number;
  /** Counted from the start of the tensor data. */
  offset: number;
};

export type Span = { start: number; end: number };

export type Header = {
  version: number;
  alignment: number;
  metadata: ReadonlyMap<string, Typed>;
  /** Position of each key's value in the file, its type included; used to copy it. */
  spans: ReadonlyMap<string, Span>;
  tensors: ReadonlyMap<string, Tensor>;
  /** Start of the tensor data in the file. */
  dataStart: number;
  /** Size of the tensor data without padding. */
  dataBytes: number;
};

/** Returns the header, or how many bytes of the file's beginning are needed. Throws only GgufError. */
export function parseGguf(bytes: Uint8Array, fileSize: number): Header | { need: number } {
  try {
    return readHeader(createReader(bytes, fileSize, LIMITS.headerBytes), fileSize);
  } catch (error) {
    if (error instanceof NeedMore) return { need: error.bytes };
    throw error;
  }
}

function readHeader(reader: Reader, fileSize: number): Header {
  const version = readPreamble(reader);
  const tensorCount = counted(reader, "the number of tensors", LIMITS.tensors);
  const keyCount = counted(reader, "the number of metadata keys", LIMITS.keys);
  const metadata = new Map<string, Typed>();
  const spans = new Map<string, Span>();
  for (let i = 0; i < keyCount; i++) readPair(reader, i, metadata, spans);
  const alignment = alignmentOf(metadata);
  const tensors = new Map<string, Tensor>();
  let offset = 0;
  for (let i = 0; i < tensorCount; i++) {
    const tensor = readTensor(reader, i, tensors);
    if (tensor.offset !== offset)
      reader.fail(`Tensor ${quoted(tensor.name)} is at offset ${tensor.offset} of the data, not at ${offset}`);
    tensors.set(tensor.name, tensor);
    offset = pad(offset + tensor.bytes, alignment);
  }
  const dataStart = tensorCount === 0 ? reader.at : pad(reader.at, alignment);
  let dataBytes = 0;
  for (const tensor of tensors.values()) {
    dataBytes += tensor.bytes;
    const end = dataStart + tensor.offset + tensor.bytes;
    if (end > fileSize)
      throw new GgufError(
        `The file is truncated: it has ${fileSize} bytes, but tensor ${quoted(tensor.name)} ends at byte ${end}. Copy or download it again`,
      );
  }
  return { version, alignment, metadata, spans, tensors, dataStart, dataBytes };
}

const MAGIC = 0x46554747; // "GGUF"

function readPreamble(reader: Reader): number {
  if (reader.u32("the first four bytes") !== MAGIC)
    throw new GgufError("The file is not a GGUF file: it does not begin with GGUF (at byte 0)");
  const version = reader.u32("the version");
  if (version === 2 || version === 3) return version;
  if ((version & 0xffff) === 0 && version !== 0)
    throw new GgufError(
      "The file is a big endian GGUF file, but this machine reads only little endian. Convert it with gguf-convert-endian (at byte 4)",
    );
  throw new GgufError(`GGUF version ${version} is not supported. Convert the file to version 3 (at byte 4)`);
}

function counted(reader: Reader, what: string, most: number): number {
  const count = reader.u64(what);
  return count <= most ? count : reader.fail(`${what} is ${count}; the maximum is ${most}`);
}

function readPair(reader: Reader, index: number, metadata: Map<string, Typed>, spans: Map<string, Span>) {
  const key = reader.string(`metadata key ${index}`, LIMITS.keyBytes);
  if (key === "") reader.fail(`metadata key ${index} is empty`);
  if (metadata.has(key)) reader.fail(`metadata key ${quoted(key)} appears twice`);
  const what = `the value of ${quoted(key)}`;
  const start = reader.at;
  const type = readType(reader, what);
  const value = type === "array" ? readArray(reader, what, key === TOKENS) : readValue(reader, type, what);
  metadata.set(key, { type, value });
  spans.set(key, { start, end: reader.at });
}

function readType(reader: Reader, what: string): ValueType {
  const number = reader.u32(`the type of ${what}`);
  return VALUE_TYPES[number] ?? reader.fail(`${what} has the unknown type ${number}`);
}

const readValue = (reader: Reader, type: Exclude<ValueType, "array">, what: string): GgufValue =>
  type === "string" ? reader.string(what, LIMITS.stringBytes) : reader.scalar(type, what);

function readArray(reader: Reader, what: string, distinct: boolean): GgufArray {
  const of = readType(reader, what);
  if (of === "array") reader.fail(`${what} is an array of arrays, which is not supported`);
  const length = counted(reader, `the length of ${what}`, distinct ? LIMITS.tokens : LIMITS.arrayElements);
  if (of === "string") {
    walkStrings(reader, what, length, distinct);
    return { of, length, numbers: undefined };
  }
  if (length > LIMITS.keptNumbers) {
    reader.take(length * SCALAR_BYTES[of as keyof typeof SCALAR_BYTES], what);
    return { of, length, numbers: undefined };
  }
  const numbers: number[] = [];
  for (let i = 0; i < length; i++) numbers.push(Number(reader.scalar(of as keyof typeof SCALAR_BYTES, what)));
  return { of, length, numbers };
}

function walkStrings(reader: Reader, what: string, length: number, distinct: boolean) {
  reader.has(length * 8, what); // checked before memory of the claimed size is allocated
  const isNew = distinct ? createDistinct(reader.bytes, length) : undefined;
  for (let i = 0; i < length; i++) {
    const start = reader.skipString(what, LIMITS.stringBytes);
    if (isNew && !isNew(start, reader.at)) reader.fail(`element ${i} of ${what} appears twice`);
  }
}

function alignmentOf(metadata: ReadonlyMap<string, Typed>): number {
  const entry = metadata.get("general.alignment");
  if (!entry) return 32;
  const { type, value } = entry;
  if (type !== "uint32" || typeof value !== "number")
    throw new GgufError(`general.alignment must be a uint32, not ${type}`);
  if (value === 0 || (value & (value - 1)) !== 0 || value > LIMITS.alignment)
    throw new GgufError(`general.alignment is ${value}. Expected a power of two up to ${LIMITS.alignment}`);
  return value;
}

function readTensor(reader: Reader, index: number, before: ReadonlyMap<string, Tensor>): Tensor {
  const name = reader.string(`the name of tensor ${index}`, LIMITS.nameBytes);
  const what = `tensor ${quoted(name)}`;
  if (name === "" || name.includes("\0")) reader.fail(`The name of tensor ${index} is empty or contains a zero byte`);
  if (before.has(name)) reader.fail(`${what} appears twice`);
  const count = reader.u32(`the dimensions of ${what}`);
  if (count < 1 || count > 4) reader.fail(`${what} has ${count} dimensions. Expected 1 to 4`);
  const dims: number[] = [];
  let elements = 1;
  for (let d = 0; d < count; d++) {
    const size = reader.u64(`dimension ${d} of ${what}`);
    if (size === 0) reader.fail(`dimension ${d} of ${what} is 0`);
    elements *= size;
    if (!Number.isSafeInteger(elements)) reader.fail(`${what} has more elements than any file can hold`);
    dims.push(size);
  }
  const number = reader.u32(`the type of ${what}`);
  const type = TENSOR_TYPES.get(number) ?? reader.fail(`${what} has the unknown type ${number}`);
  const row = dims[0] as number;
  if (row % type.block !== 0)
    reader.fail(`${what} has rows of ${row} elements, but type ${type.name} needs a multiple of ${type.block}`);
  const bytes = (elements / type.block) * type.bytes;
  if (!Number.isSafeInteger(bytes)) reader.fail(`${what} has more bytes than any file can hold`);
  return { name, type, dims, elements, bytes, offset: reader.u64(`the offset of ${what}`) };
}

const pad = (bytes: number, alignment: number) => Math.ceil(bytes / alignment) * alignment;

/** Names come from the file: they are shortened, kept on one line, and escaped. */
export function quoted(name: string): string {
  const text = JSON.stringify(name.slice(0, 80));
  return text.length < name.length || text.length > 120 ? `${text.slice(0, 100)}…"` : text;
}
