import { expect, test } from "bun:test";
import { type Area, allows } from "../../../lib/scopes.ts";
import { managerRole, mayManage, ROLES, type Role, scopesOf } from "./policy.ts";

const AREAS = ["inference", "training", "detect", "metrics", "annotate", "account", "admin"] as const;

/** Areas that a role reads, and areas that it writes. */
const TABLE: [Role | "operator", reads: readonly Area[], writes: readonly Area[]][] = [
  ["operator", AREAS, AREAS],
  ["owner", AREAS.slice(0, -1), AREAS.slice(0, -1)],
  ["admin", AREAS.slice(0, -1), AREAS.slice(0, -1)],
  ["member", AREAS.slice(0, -1), ["inference", "training", "detect", "annotate"]],
  ["viewer", AREAS.slice(0, -1), []],
  ["annotator", ["annotate"], ["annotate"]],
];

test.each(TABLE)("%s reads %p and writes %p", (role, reads, writes) => {
  const scopes = role === "operator" ? scopesOf("owner", true) : scopesOf(role, false);
  expect(AREAS.filter((area) => allows(scopes, area, true))).toEqual([...reads] as (typeof AREAS)[number][]);
  expect(AREAS.filter((area) => allows(scopes, area, false))).toEqual([...writes] as (typeof AREAS)[number][]);
});

test("only an owner can be an operator", () => {
  for (const role of ROLES.filter((each) => each !== "owner"))
    expect(scopesOf(role, true)).toEqual(scopesOf(role, false));
});

test.each([
  ["owner", "owner", "viewer", true],
  ["owner", undefined, "owner", true],
  ["admin", "member", "admin", true],
  ["admin", "owner", "viewer", false],
  ["admin", "owner", undefined, false],
  ["admin", "member", "owner", false],
  ["member", "viewer", "annotator", false],
  [undefined, "viewer", "annotator", false],
] as [Role | undefined, Role | undefined, Role | undefined, boolean][])(
  "%s changes %s to %s: %p",
  (manager, from, to, verdict) => {
    expect(mayManage(manager, from, to)).toBe(verdict);
  },
);

test.each([
  [["admin"], undefined, "owner"],
  [["*"], undefined, "admin"],
  [["*"], "owner", "owner"],
  [["training"], undefined, undefined],
  [["read"], "viewer", "viewer"],
] as const)("a caller with %p and the role %s manages as %s", (scopes, role, verdict) => {
  expect(managerRole(scopes, role)).toBe(verdict);
});
