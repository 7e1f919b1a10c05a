import { expect, test } from "bun:test";
import { changeOf, csvOf, tierOf } from "./words.ts";

test("scores and changes read well", () => {
  expect([changeOf(0.5, 0.38), changeOf(0.3, 0.31), changeOf(0.301, 0.3)]).toEqual(["+0.12", "−0.01", "±0.00"]);
  expect(tierOf("likely_ai")).toEqual({ text: "Likely generated", tone: "warn" });
});

test("a file name is never a formula and never breaks its line", () => {
  const csv = csvOf([{ name: '=cmd("x"),\n.png', error: "too large" }]);
  expect(csv).toBe('file,score,prediction,sha256,error\n"\'=cmd(""x""),\n.png","","","","too large"\n');
});
