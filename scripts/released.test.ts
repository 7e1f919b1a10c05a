import { expect, test } from "bun:test";
import { extendReleased } from "./released.ts";

const ONE = { name: "0001_init", sql: "CREATE TABLE a (x);" };
const FOUR = { name: "0004_more", sql: "CREATE TABLE b (x);" };
const THREE = { name: "0003_late", sql: "CREATE TABLE c (x);" };
const FIVE = { name: "0005_next", sql: "CREATE TABLE d (x);" };
const list = extendReleased("", [ONE, FOUR]);

test("R1: a migration with a higher number joins the list of released ones", () => {
  const longer = extendReleased(list, [ONE, FOUR, FIVE]);
  expect(longer.startsWith(list)).toBe(true);
  expect(extendReleased(longer, [ONE, FOUR, FIVE])).toBe(longer);
});

test.each([
  ["a number below the newest", [ONE, THREE, FOUR], /0003_late.sql is below 0004_more.*number 5 or higher/],
  ["an edited text", [{ ...ONE, sql: "CREATE TABLE a (y);" }, FOUR], /0001_init.sql is not as it was released/],
  ["a removed file", [ONE], /0004_more.sql is released and must stay/],
  ["a renamed file", [ONE, { ...FOUR, name: "0006_more" }], /0006_more.sql is below 0004_more|must stay/],
  ["the same number twice", [ONE, FOUR, { ...FIVE, name: "0004_other" }], /0004_other.sql has the number of 0004_more/],
  ["a bad name", [ONE, FOUR, { ...FIVE, name: "5_next" }], /expected a name/],
])("R1: %s is refused", (_name, migrations, message) => {
  expect(() => extendReleased(list, migrations)).toThrow(message);
});

test("R1: a merge of two lists does not let a lower number in", () => {
  const other = extendReleased(extendReleased("", [ONE]), [ONE, THREE]);
  const merged = [...new Set([...list.split("\n"), ...other.split("\n")])].sort().join("\n");
  expect(() => extendReleased(merged, [ONE, THREE, FOUR])).toThrow(/0004_more.sql is not as it was released/);
});
