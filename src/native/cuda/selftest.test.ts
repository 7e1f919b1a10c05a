import { expect, test } from "bun:test";
import { tempDir } from "../../../test/harness.ts";
import { CPU_TYPE } from "../ggml/ggml.ts";
import { openGgml } from "../ggml/symbols.ts";
import { computeOn } from "./selftest.ts";

const ggml = openGgml(tempDir(), { cuda: false });

test("the computation that a card is tested with comes out right on the processor", () => {
  expect(computeOn(ggml, CPU_TYPE)).toEqual([{ name: "CPU", description: expect.any(String) }]);
});

test("a device that computes something else is named with the first wrong number", () => {
  const wrong = { ...ggml, ggml_add: ggml.ggml_sub };
  expect(() => computeOn(wrong, CPU_TYPE)).toThrow(/^CPU \(.*\) computes wrong numbers: -?\d+ instead of \d+ at row 0/);
});

test("a machine without such a device has none to test", () => {
  expect(computeOn(ggml, 99)).toEqual([]);
});
