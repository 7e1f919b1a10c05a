import { expect, test } from "bun:test";
import { merge } from "./merge.ts";

const typesOf = (a: string | string[], b: string | string[]) => {
  const { type } = merge({ type: a }, { type: b }, "/s");
  return [type].flat();
};

test("what is a number and an integer is an integer, whichever comes first", () => {
  expect(typesOf("number", "integer")).toEqual(["integer"]);
  expect(typesOf("integer", "number")).toEqual(["integer"]);
  expect(typesOf(["integer", "null"], ["number", "string"])).toEqual(["integer"]);
  expect(typesOf(["number", "null"], ["null", "integer"])).toEqual(["null", "integer"]);
});

test("types that both name stay, and types without a common value are refused", () => {
  expect(typesOf(["string", "null"], ["null", "boolean"])).toEqual(["null"]);
  expect(typesOf("number", "number")).toEqual(["number"]);
  expect(() => typesOf("string", ["null", "integer"])).toThrow("no value is both string and null or integer");
  expect(() => typesOf(["integer", "number"], "string")).toThrow("no value is both integer or number and string");
});
