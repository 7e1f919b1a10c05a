import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ARCHITECTURES } from "./architecture.ts";
import { RUNNABLE, whyNotRunnable } from "./runnable.ts";

test("models of every listed architecture can be served, others with their reason cannot", () => {
  expect(RUNNABLE.filter((name) => whyNotRunnable(name) !== undefined)).toEqual([]);
  expect(ARCHITECTURES.filter((name) => whyNotRunnable(name) !== undefined)).toEqual([]);
  expect(whyNotRunnable("foobar9")).toStartWith("its architecture foobar9 is not known to this version");
  expect(whyNotRunnable("t5")).toStartWith("t5 is an encoder with a decoder");
  expect(whyNotRunnable("constructor")).toContain("not known");
});

test("the bundled library has the name of every listed architecture", () => {
  const folder = join(import.meta.dir, "../../../node_modules/@node-llama-cpp");
  const files = readdirSync(folder, { recursive: true }).map(String);
  const library = files.find((file) => /libllama\.v[\d.]+\.so$/.test(file));
  const text = readFileSync(join(folder, library ?? "none"), "latin1");
  expect(RUNNABLE.filter((name) => !text.includes(`${name}\0`))).toEqual([]);
});
