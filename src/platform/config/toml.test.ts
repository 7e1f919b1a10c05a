import { expect, test } from "bun:test";
import { type TomlValue, tomlValue } from "./toml.ts";

test.each([
  "plain",
  'quotes " and \\ back',
  "line\nbreak\ttab\x7f\x01",
  "ünï日本",
  "",
  0,
  -3,
  1.5,
  10_485_760,
  true,
  false,
  [[]],
  [["a", "b"]],
  [[1, 2]],
] as TomlValue[])("%p survives a TOML parser", (value) => {
  expect(Bun.TOML.parse(`x = ${tomlValue(value)}`)).toEqual({ x: value });
});
