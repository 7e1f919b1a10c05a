/** Reads metadata of a header with a type and a range. A value outside them throws an error that names the key. */
import { type GgufArray, GgufError, type Header, quoted, type Tensor } from "./parse.ts";

export type Range = { min: number; max: number };

export const has = (header: Header, key: string) => header.metadata.has(key);

/** Reads a uint32, the type that native code requires. */
export function count(header: Header, key: string, range: Range, fallback?: number): number {
  const entry = header.metadata.get(key);
  if (!entry) return fallback ?? missing(key);
  if (entry.type !== "uint32" || typeof entry.value !== "number")
    throw new GgufError(`${key} must be a uint32, not ${entry.type}`);
  return within(key, entry.value, range);
}

/** One number for all layers, or an array with one for each. */
export function countPerLayer(header: Header, key: string, layers: number, range: Range): number[] | undefined {
  const entry = header.metadata.get(key);
  if (!entry) return undefined;
  if (entry.type !== "array") return Array(layers).fill(count(header, key, range));
  const { of, length, numbers } = entry.value as GgufArray;
  if ((of !== "uint32" && of !== "int32") || !numbers)
    throw new GgufError(`${key} must be an array of uint32 or int32, not ${length} × ${of}`);
  if (length !== layers) throw new GgufError(`${key} has ${length} values for ${layers} layers`);
  return numbers.map((value, layer) => within(`${key}[${layer}]`, value, range));
}

export function float(header: Header, key: string, range: Range): number | undefined {
  const entry = header.metadata.get(key);
  if (!entry) return undefined;
  if (entry.type !== "float32" || typeof entry.value !== "number")
    throw new GgufError(`${key} must be a float32, not ${entry.type}`);
  return within(key, entry.value, range);
}

export function string(header: Header, key: string): string | undefined {
  const entry = header.metadata.get(key);
  if (!entry) return undefined;
  if (typeof entry.value !== "string") throw new GgufError(`${key} must be a string, not ${entry.type}`);
  return entry.value;
}

export function array(header: Header, key: string, types: readonly string[]): GgufArray | undefined {
  const entry = header.metadata.get(key);
  if (!entry) return undefined;
  const value = entry.value as GgufArray;
  if (entry.type !== "array" || !types.includes(value.of))
    throw new GgufError(
      `${key} must be an array of ${types.join(" or ")}, not ${entry.type === "array" ? value.of : entry.type}`,
    );
  return value;
}

export function missing(what: string): never {
  throw new GgufError(`${what} is missing: the file is incomplete or not a language model`);
}

function within(key: string, value: number, { min, max }: Range): number {
  if (!(value >= min && value <= max)) throw new GgufError(`${key} is ${value}. Expected ${min} to ${max}`);
  return value;
}

/** Types that native code cannot multiply matrices with: it would fail an assertion. */
const NOT_MATRICES = ["I8", "I16", "I32", "I64", "F64", "Q8_1", "Q8_K"];

/** Checks that a tensor exists, has the shape that the metadata requires, and a usable type. */
export function tensor(header: Header, name: string, dims: readonly number[]) {
  const entry = header.tensors.get(name);
  if (!entry) throw new GgufError(`Tensor ${quoted(name)} is missing: the file is incomplete`);
  fits(entry, dims);
}

export function optionalTensor(header: Header, name: string, dims: readonly number[]) {
  const entry = header.tensors.get(name);
  if (entry) fits(entry, dims);
}

function fits({ name, dims: actual, type }: Tensor, dims: readonly number[]) {
  const trimmed = [...actual];
  while (trimmed.length > dims.length && trimmed.at(-1) === 1) trimmed.pop();
  if (trimmed.length !== dims.length || trimmed.some((size, d) => size !== dims[d]))
    throw new GgufError(
      `Tensor ${quoted(name)} is ${actual.join(" × ")}, but the metadata requires ${dims.join(" × ")}`,
    );
  if (dims.length === 1 ? type.name !== "F32" : NOT_MATRICES.includes(type.name))
    throw new GgufError(`Tensor ${quoted(name)} has the type ${type.name}, which is not supported for it`);
}
