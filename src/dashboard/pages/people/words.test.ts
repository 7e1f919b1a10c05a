import { expect, test } from "bun:test";
import { ROLES as OF_SERVER, scopesOf } from "../../../resources/access/people/policy.ts";
import { RIGHTS, ROLES } from "./words.ts";

test("the table of rights says what the server allows", () => {
  expect(Object.keys(ROLES)).toEqual([...OF_SERVER]);
  for (const [does, scope, roles] of RIGHTS) {
    const allowed = OF_SERVER.filter((role) => {
      const scopes: readonly string[] = scopesOf(role, false);
      return scopes.includes(scope) || scopes.includes("*");
    });
    expect([does, [...roles]]).toEqual([does, allowed]);
  }
});
