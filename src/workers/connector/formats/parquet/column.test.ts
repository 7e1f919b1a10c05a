import { expect, test } from "bun:test";
import { Budget, Column } from "./column.ts";
import type { Node } from "./schema.ts";

const number = (value: number) => {
  const bytes = [];
  let rest = value * 2; // zigzag
  for (; rest >= 0x80; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80);
  return [...bytes, rest];
};
const field = (value: number) => [0x15, ...number(value)]; // an integer as the next field

test("a page that claims to be larger than all pages may be is refused before it is read", async () => {
  const claimed = 1_900_000_000;
  const values = [10, 0, 3, 3].flatMap(field);
  const header = Uint8Array.from([...[0, 1000, claimed].flatMap(field), 0x2c, ...values, 0, 0]);
  let largest = 0;
  const read = async (from: number, to: number) => {
    largest = Math.max(largest, to - from);
    const bytes = new Uint8Array(Math.min(to - from, 2 ** 20));
    bytes.set(header);
    return bytes;
  };
  const leaf = { name: "a", rep: 0, def: 0, element: { name: "a", type: "BYTE_ARRAY" } } as Node;
  const chunk = { from: 0, to: 2 * claimed, values: 10, codec: "SNAPPY" };
  const budget = new Budget(512 * 2 ** 20);
  const column = new Column({ leaf, chunk, read, windowBytes: 2 ** 20, budget, toText: String });
  await expect(column.fill()).rejects.toThrow(`take more than ${512 * 2 ** 20} bytes of memory`);
  expect(largest).toBeLessThan(2 ** 21);
});
