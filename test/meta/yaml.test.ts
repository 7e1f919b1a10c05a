import { expect, test } from "bun:test";
import { read, sources } from "./imports.ts";

test("S10: only one file reads YAML", () => {
  const readers = sources.filter((file) => /\bYAML\.parse\b|from "(?:js-)?yaml"/.test(read(file)));
  expect(readers).toEqual(["src/lib/text/yaml.ts"]);
});
