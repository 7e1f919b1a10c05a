import { expect, test } from "bun:test";
import { lineOf, parseSettings } from "./settings_file.ts";

test.each([
  ["job.yaml", "method: sft\nlearning_rate: 1e-4\nlora:\n  r: 8\n"],
  ["job.yml", "method: sft\nlearning_rate: 0.0001\nlora: {r: 8}\n"],
  ["job.toml", 'method = "sft"\nlearning_rate = 1e-4\n[lora]\nr = 8\n'],
  ["job.json", '{"method": "sft", "learning_rate": 1e-4, "lora": {"r": 8}}'],
  ["-", '  {"method": "sft", "learning_rate": 1e-4, "lora": {"r": 8}}'],
  ["job.txt", "method: sft\nlearning_rate: 1e-4\nlora: {r: 8}\n"],
])("%s is read by its name", (file, text) =>
  expect(parseSettings(file, text)).toEqual({ method: "sft", learning_rate: 1e-4, lora: { r: 8 } }),
);

test.each([
  ["a.yaml", "a: 1\nb: [1, 2\nc: 3\n", "a.yaml:2: this is not valid YAML: "],
  ["a.yaml", "a: 1\n\tb: 2\n", "a.yaml:2: this is not valid YAML: Tab characters"],
  ["a.yaml", "a: 1\nb: 2\na: 3\n", "a.yaml:3: a is there twice"],
  ["a.yaml", "- a\n- b\n", "a.yaml must contain one set of names and values"],
  ["a.yaml", "", "a.yaml must contain"],
  ["a.toml", "a = 1\nb = \n", "a.toml:2: this is not valid TOML: Missing value"],
  ["a.toml", "a = 1\na = 2\n", "a.toml:2: this is not valid TOML: Cannot redefine"],
  ["a.json", '{\n  "a": 1,\n  "b" 2\n}', "a.json:3: this is not valid JSON"],
  ["a.json", '{"a": 1', "a.json:1: this is not valid JSON"],
  ["a.json", "[1]", "a.json must contain"],
])("%s %j is refused with its line", (file, text, message) => expect(() => parseSettings(file, text)).toThrow(message));

test("the line of a setting in each format", () => {
  expect(lineOf("a: 1\nlora:\n  r: 8\n", "r")).toBe(3);
  expect(lineOf('{\n"a": 1,\n "b": 2}', "b")).toBe(3);
  expect(lineOf("a = 1\nbeta = 2\n", "beta")).toBe(2);
  expect(lineOf("rate: 1\n", "learning_rate")).toBeUndefined();
});
