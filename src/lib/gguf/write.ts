/**
 * Writes GGUF version 3, little endian, in one pass: the header from a plan of the tensors, then the bytes of each.
 * Only the header is in memory, so a file may be larger than memory. A plan that this folder's parser would reject is
 * rejected before the first byte.
 */
import { GgufError, LIMITS, quoted } from "./parse.ts";
import { TENSOR_TYPES, VALUE_TYPES, type ValueType } from "./types.ts";

type Scalar = Exclude<ValueType, "array">;
export type NewValue =
  | { type: Exclude<Scalar, "string" | "bool">; value: number | bigint }
  | { type: "bool"; value: boolean }
  | { type: "string"; value: string }
  | { type: "array"; of: Scalar; values: readonly (number | bigint | boolean | string)[] };

/** A value, or its bytes copied from another file, beginning with the type. */
export type Metadata = ReadonlyMap<string, NewValue | Uint8Array>;

/** `dims` has the fastest dimension first; `type` is a name such as Q8_0. */
export type TensorPlan = { name: string; type: string; dims: readonly number[] };
/** A piece is consumed before the next is requested: the source may reuse its buffer. */
export type TensorSource = TensorPlan & { content: () => AsyncIterable<Uint8Array> | Iterable<Uint8Array> };

const ALIGNMENT = 32;
const typesByName = new Map([...TENSOR_TYPES].map(([number, type]) => [type.name, { number, ...type }]));

export async function* ggufChunks(metadata: Metadata, tensors: readonly TensorSource[]): AsyncGenerator<Uint8Array> {
  yield encodeGgufHeader(metadata, tensors);
  for (const tensor of tensors) {
    const wanted = tensorBytes(tensor);
    let written = 0;
    for await (const piece of tensor.content()) {
      written += piece.byteLength;
      if (written > wanted) break;
      yield piece;
    }
    if (written !== wanted)
      throw new GgufError(`Tensor ${quoted(tensor.name)} got ${written} bytes, but its shape and type need ${wanted}`);
    yield new Uint8Array(padding(wanted));
  }
}

/** Returns everything before the first tensor's bytes, padding included. The alignment is always 32. */
export function encodeGgufHeader(metadata: Metadata, tensors: readonly TensorPlan[]): Uint8Array {
  if (metadata.has("general.alignment")) throw new GgufError("general.alignment is set by the writer. Remove it");
  const out = createSink();
  out.bytes(new TextEncoder().encode("GGUF"));
  out.scalar("uint32", 3);
  out.scalar("uint64", tensors.length);
  out.scalar("uint64", metadata.size);
  for (const [key, value] of metadata) {
    if (key === "") throw new GgufError("A metadata key is empty");
    out.string(key, LIMITS.keyBytes);
    if (value instanceof Uint8Array) out.bytes(value);
    else writeValue(out, value);
  }
  const names = new Set<string>();
  let offset = 0;
  for (const tensor of tensors) {
    if (names.has(tensor.name)) throw new GgufError(`Tensor ${quoted(tensor.name)} appears twice`);
    names.add(tensor.name);
    const bytes = tensorBytes(tensor); // checks the plan
    writePlan(out, tensor, offset);
    offset += bytes + padding(bytes);
  }
  out.bytes(new Uint8Array(padding(out.length)));
  return out.finish();
}

export function tensorBytes({ name, type, dims }: TensorPlan): number {
  const format = typesByName.get(type);
  if (!format) throw new GgufError(`Tensor ${quoted(name)} has the unknown type ${quoted(type)}`);
  const row = dims[0] ?? 0;
  const elements = dims.reduce((product, size) => product * size, 1);
  const sound = dims.length <= 4 && dims.every((size) => Number.isSafeInteger(size) && size > 0);
  if (row === 0 || !sound || !Number.isSafeInteger(elements * 8))
    throw new GgufError(`Tensor ${quoted(name)} has the shape [${dims.join(", ")}]. Expected 1 to 4 integers`);
  if (row % format.block !== 0)
    throw new GgufError(
      `Tensor ${quoted(name)} has rows of ${row} elements, but type ${type} needs a multiple of ${format.block}`,
    );
  return (elements / format.block) * format.bytes;
}

export const textValue = (value: string): NewValue => ({ type: "string", value });
export const uint32Value = (value: number): NewValue => ({ type: "uint32", value });
export const float32Value = (value: number): NewValue => ({ type: "float32", value });

const padding = (bytes: number) => (ALIGNMENT - (bytes % ALIGNMENT)) % ALIGNMENT;

function writePlan(out: Sink, { name, type, dims }: TensorPlan, offset: number) {
  if (name === "" || name.includes("\0")) throw new GgufError("The name of a tensor is empty or contains a zero byte");
  out.string(name, LIMITS.nameBytes);
  out.scalar("uint32", dims.length);
  for (const size of dims) out.scalar("uint64", size);
  out.scalar("uint32", typesByName.get(type)?.number ?? 0); // known, because its bytes were counted
  out.scalar("uint64", offset);
}

function writeValue(out: Sink, entry: NewValue) {
  out.scalar("uint32", VALUE_TYPES.indexOf(entry.type));
  if (entry.type !== "array") return writeScalar(out, entry.type, entry.value);
  out.scalar("uint32", VALUE_TYPES.indexOf(entry.of));
  out.scalar("uint64", entry.values.length);
  for (const value of entry.values) writeScalar(out, entry.of, value);
}

function writeScalar(out: Sink, type: Scalar, value: number | bigint | boolean | string) {
  if (type === "string") out.string(String(value), LIMITS.stringBytes);
  else out.scalar(type, typeof value === "boolean" ? Number(value) : (value as number | bigint));
}

type Sink = ReturnType<typeof createSink>;

function createSink() {
  let buffer = new Uint8Array(4096);
  let view = new DataView(buffer.buffer);
  let at = 0;

  function room(bytes: number): number {
    if (at + bytes > buffer.byteLength) {
      const larger = new Uint8Array(Math.max(buffer.byteLength * 2, at + bytes));
      larger.set(buffer.subarray(0, at));
      buffer = larger;
      view = new DataView(buffer.buffer);
    }
    at += bytes;
    return at - bytes;
  }

  const bytes = (content: Uint8Array) => {
    const start = room(content.byteLength); // this may replace the buffer
    buffer.set(content, start);
  };
  const scalar = (type: Exclude<Scalar, "string">, value: number | bigint) => {
    const [length, write] = WRITE[type];
    const start = room(length);
    write(view, start, value);
  };
  return {
    bytes,
    scalar,
    string(value: string, most: number) {
      const encoded = new TextEncoder().encode(value);
      if (encoded.byteLength > most)
        throw new GgufError(`${quoted(value)} is ${encoded.byteLength} bytes long; the maximum is ${most}`);
      scalar("uint64", encoded.byteLength);
      bytes(encoded);
    },
    get length() {
      return at;
    },
    finish: () => buffer.subarray(0, at),
  };
}

type Write = (view: DataView, at: number, value: number | bigint) => void;
const WRITE: Record<Exclude<Scalar, "string">, [bytes: number, write: Write]> = {
  uint8: [1, (view, at, value) => view.setUint8(at, Number(value))],
  int8: [1, (view, at, value) => view.setInt8(at, Number(value))],
  uint16: [2, (view, at, value) => view.setUint16(at, Number(value), true)],
  int16: [2, (view, at, value) => view.setInt16(at, Number(value), true)],
  uint32: [4, (view, at, value) => view.setUint32(at, Number(value), true)],
  int32: [4, (view, at, value) => view.setInt32(at, Number(value), true)],
  float32: [4, (view, at, value) => view.setFloat32(at, Number(value), true)],
  bool: [1, (view, at, value) => view.setUint8(at, Number(value))],
  uint64: [8, (view, at, value) => view.setBigUint64(at, BigInt(value), true)],
  int64: [8, (view, at, value) => view.setBigInt64(at, BigInt(value), true)],
  float64: [8, (view, at, value) => view.setFloat64(at, Number(value), true)],
};
