import { expect, test } from "bun:test";
import { type Area, allows, narrow, within } from "./scopes.ts";

test.each([
  [["*"], "account", false, true],
  [["*"], "admin", true, false],
  [["admin"], "admin", false, true],
  [["admin"], "training", false, true],
  [["read"], "training", true, true],
  [["read"], "training", false, false],
  [["read"], "admin", true, false],
  [["training"], "training", false, true],
  [["training"], "account", true, false],
  [["inference"], "inference", false, true],
  [["inference"], "training", true, false],
  [["detect"], "detect", false, true],
  [["metrics"], "metrics", true, true],
  [["metrics"], "training", true, false],
  [["training"], "metrics", true, false],
  [["detect", "read"], "account", true, true],
  [["training"], "self", true, true],
  [["training"], "self", false, false],
  [["read"], "self", false, false],
  [["*"], "self", false, true],
  [[], "inference", true, false],
  [["annotate"], "annotate", false, true],
  [["annotate"], "training", true, false],
  [["training"], "annotate", false, true],
] as [string[], Area, boolean, boolean][])("%p on %s, reads: %p → %p", (scopes, area, reads, verdict) => {
  expect(allows(scopes, area, reads)).toBe(verdict);
});

test.each([
  [["training"], ["*"], true],
  [["admin"], ["*"], false],
  [["admin", "*"], ["admin"], true],
  [["*"], ["training"], false],
  [["training"], ["training", "read"], true],
  [["training", "detect"], ["training"], false],
])("asking for %p while holding %p: %p", (wanted, held, verdict) => {
  expect(within(wanted, held)).toBe(verdict);
});

test.each([
  [["*"], ["read"], ["read"]],
  [["admin"], ["*"], ["*"]],
  [["training", "detect"], ["training", "read"], ["training"]],
  [["detect"], ["read"], []],
  [["read"], ["*"], ["read"]],
] as [string[], string[], string[]][])("%p narrowed to %p: %p", (scopes, held, verdict) => {
  expect(narrow(scopes, held)).toEqual(verdict);
});
