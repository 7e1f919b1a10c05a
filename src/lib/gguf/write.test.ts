import { expect, test } from "bun:test";
import { GgufError, type Header, parseGguf } from "./parse.ts";
import { encodeGgufHeader, ggufChunks, type Metadata, type NewValue, type TensorSource } from "./write.ts";

const SCALARS: [NewValue, unknown][] = [
  [{ type: "uint8", value: 255 }, 255],
  [{ type: "int8", value: -128 }, -128],
  [{ type: "uint16", value: 65_535 }, 65_535],
  [{ type: "int16", value: -32_768 }, -32_768],
  [{ type: "uint32", value: 4_294_967_295 }, 4_294_967_295],
  [{ type: "int32", value: -2_147_483_648 }, -2_147_483_648],
  [{ type: "float32", value: 0.5 }, 0.5],
  [{ type: "bool", value: true }, true],
  [{ type: "string", value: "Grüße 🙂" }, "Grüße 🙂"],
  [{ type: "uint64", value: 2n ** 64n - 1n }, 2n ** 64n - 1n],
  [{ type: "int64", value: -(2n ** 63n) }, -(2n ** 63n)],
  [{ type: "float64", value: Math.PI }, Math.PI],
];
const named = SCALARS.map(([value, back]) => [value.type, value, back] as const);

const tensor = (name: string, dims: number[], type: string, pieces: Uint8Array[]): TensorSource => ({
  name,
  dims,
  type,
  content: () => pieces,
});

async function written(metadata: Metadata, tensors: TensorSource[]): Promise<Uint8Array> {
  return new Uint8Array(Buffer.concat(await Array.fromAsync(ggufChunks(metadata, tensors))));
}

function parsed(bytes: Uint8Array): Header {
  const header = parseGguf(bytes, bytes.byteLength);
  if ("need" in header) throw new Error(`needs ${header.need}`);
  return header;
}

test.each(named)("a value is read back unchanged: %s", async (_type, value, back) => {
  const header = parsed(await written(new Map([["a.key", value]]), []));
  expect(header.metadata.get("a.key")).toEqual({ type: value.type, value: back } as never);
});

test.each(named)("an array of two values is read back unchanged: %s", async (type, value, back) => {
  if (value.type === "array") throw new Error("no arrays of arrays");
  const of = value.type;
  const values = [value.value, value.value];
  const header = parsed(await written(new Map([["a.key", { type: "array", of, values }]]), []));
  const numbers = type === "string" ? undefined : [Number(back), Number(back)];
  expect(header.metadata.get("a.key")).toEqual({ type: "array", value: { of: type, length: 2, numbers } } as never);
});

test("tensors lie at multiples of 32, each with its own bytes", async () => {
  const ones = new Uint8Array(12).fill(1);
  const twos = [new Uint8Array(30).fill(2), new Uint8Array(4).fill(2)];
  const bytes = await written(new Map(), [tensor("a", [3], "F32", [ones]), tensor("b", [32, 1], "Q8_0", twos)]);
  const { dataStart, tensors } = parsed(bytes);
  expect([...tensors.values()].map(({ name, offset, bytes }) => [name, offset, bytes])).toEqual([
    ["a", 0, 12],
    ["b", 32, 34],
  ]);
  expect(dataStart % 32).toBe(0);
  expect(bytes.subarray(dataStart)).toEqual(
    new Uint8Array([...ones, ...new Uint8Array(20), ...new Uint8Array(34).fill(2), ...new Uint8Array(30)]),
  );
});

test("a value copied by its span is the same value in the other file", async () => {
  const tokens: NewValue = { type: "array", of: "string", values: Array.from({ length: 2000 }, (_, i) => `t${i}`) };
  const first = await written(new Map<string, NewValue>([["x", tokens], ["y", { type: "uint32", value: 7 }]]), []); // biome-ignore format: short
  const { spans } = parsed(first);
  const copies = new Map([...spans].map(([key, { start, end }]) => [key, first.subarray(start, end)] as const));
  expect(await written(copies, [])).toEqual(first);
});

test.each([
  ["too few bytes", [tensor("a", [4], "F32", [new Uint8Array(12)])], "got 12 bytes, but its shape and type need 16"],
  ["too many bytes", [tensor("a", [2], "F32", [new Uint8Array(12)])], "got 12 bytes, but its shape and type need 8"],
  ["rows that are no whole blocks", [tensor("a", [33], "Q8_0", [])], "needs a multiple of 32"],
  ["an unknown type", [tensor("a", [32], "Q9", [])], "unknown type"],
  ["no dimensions", [tensor("a", [], "F32", [])], "Expected 1 to 4"],
  ["five dimensions", [tensor("a", [1, 1, 1, 1, 1], "F32", [])], "Expected 1 to 4"],
  ["a fraction", [tensor("a", [1.5], "F32", [])], "Expected 1 to 4"],
  ["a name twice", [tensor("a", [1], "F32", []), tensor("a", [1], "F32", [])], "appears twice"],
  ["a name that native code cuts off", [tensor("a".repeat(64), [1], "F32", [])], "the maximum is 63"],
  ["no name", [tensor("", [1], "F32", [])], "empty"],
])("%s is refused", async (_name, tensors, words) => {
  const error = await written(new Map(), tensors).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(GgufError);
  expect((error as Error).message).toContain(words);
});

test("the alignment cannot differ from the writer's", () => {
  expect(() => encodeGgufHeader(new Map([["general.alignment", { type: "uint32", value: 64 }]]), [])).toThrow(
    GgufError,
  );
});
