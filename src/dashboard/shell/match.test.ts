import { expect, test } from "bun:test";
import type { PageSpec } from "../pages/spec.ts";
import { match, viewOf } from "./match.ts";

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

const load = () => Promise.reject(new Error("not in this test"));
const pages: readonly PageSpec[] = [
  { path: "/", title: "Home", load },
  { path: "/runs/new", title: "New run", load, area: "training" },
  { path: "/runs/:id", title: "Run", load, area: "training" },
  { path: "/keys", title: "Keys", load, area: "account" },
];

test.each([
  ["/", { is: "page", title: "Home", params: {} }],
  ["/runs/new", { is: "page", title: "New run", params: {} }],
  ["/runs/job_1", { is: "page", title: "Run", params: { id: "job_1" } }],
  ["/keys", { is: "forbidden", title: "Keys", area: "account" }],
  ["/key", { is: "missing" }],
])("a key with the scope training sees at %s: %o", (address, expected) => {
  const { is, ...view } = viewOf(address, pages, (area) => area === "training");
  const { spec, ...rest } = "spec" in view ? view : { spec: undefined };
  expect({ is, ...(spec ? { title: spec.title } : {}), ...rest }).toEqual(expected);
});

test("a key without scopes sees only pages that need none", () => {
  const views = pages.map(({ path }) => viewOf(path, pages, () => false).is);
  expect(views).toEqual(["page", "forbidden", "forbidden", "forbidden"]);
});
