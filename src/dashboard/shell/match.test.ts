import { expect, test } from "bun:test";
import { match } from "./match.ts";

test.each([
  ["/", "/", {}],
  ["/runs", "/runs/", {}],
  ["/runs/:id", "/runs/job_1", { id: "job_1" }],
  ["/a/:x/:y", "/a/one%20two/3", { x: "one two", y: "3" }],
  ["/a/:x", "/a/%zz", { x: "%zz" }],
  ["/runs/:id", "/runs", undefined],
  ["/runs/:id", "/runs/", undefined],
  ["/runs", "/run", undefined],
])("%s and %s", (pattern, address, params) => {
  expect(match(pattern, address)).toEqual(params as Record<string, string>);
});
