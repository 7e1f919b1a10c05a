import { expect, test } from "bun:test";
import type { PageSpec } from "../pages/spec.ts";
import { match, type Params, viewOf } from "./match.ts";

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

test.each<[address: string, shown: string, params: Params | undefined]>([
  ["/", "page Home", {}],
  ["/runs/new", "page New run", {}],
  ["/runs/job_1", "page Run", { id: "job_1" }],
  ["/keys", "forbidden Keys account", undefined],
  ["/key", "missing", undefined],
])("a key with the scope training sees at %s: %s", (address, shown, params) => {
  const view = viewOf(address, pages, (area) => area === "training");
  const words = view.is === "missing" ? [] : view.is === "page" ? [view.spec.title] : [view.spec.title, view.area];
  expect([view.is, ...words].join(" ")).toBe(shown);
  expect(view.is === "page" ? view.params : undefined).toEqual(params);
});

test("a key without scopes sees only pages that need none", () => {
  const views = pages.map(({ path }) => viewOf(path, pages, () => false).is);
  expect(views).toEqual(["page", "forbidden", "forbidden", "forbidden"]);
});
