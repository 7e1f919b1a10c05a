/** The lists of users and their sessions. */
import { newId } from "../src/lib/ids.ts";
import type { TestApp } from "./harness.ts";
import { insert } from "./insert_row.ts";
import type { ListCase } from "./lists_kit.ts";

const keyOf = ({ ctx, keyA }: TestApp): string =>
  ctx.db.$client
    .query<{ id: string }, [string]>("SELECT id FROM api_keys WHERE hash = ?")
    .get(Bun.SHA256.hash(keyA, "hex"))?.id ?? "";

function personFor(app: TestApp, i: number): string {
  const id = newId("psn");
  insert(app, "people", id, 1, { email: `p${i}@example.com` });
  return id;
}

const MEMBER = newId("usr", 1);

/** A user whose seat is the key of the test. */
function memberOf(app: TestApp): string {
  const find = app.ctx.db.$client.query<{ id: string }, [string]>("SELECT id FROM users WHERE id = ?");
  if (!find.get(MEMBER))
    insert(app, "users", MEMBER, 1, {
      role: "member",
      key_id: keyOf(app),
      deleted_at: null,
      person_id: personFor(app, -1),
    });
  return MEMBER;
}

export const PEOPLE_LISTS: readonly ListCase[] = [
  {
    route: "/v1/browser_sessions",
    table: "browser_sessions",
    prefix: "brs",
    row: (app, i) => ({
      hash: `h${i}`,
      method: "key",
      last_used_at: Date.UTC(2030, 0, 1),
      expires_at: Date.UTC(2040, 0, 1),
      key_id: keyOf(app),
    }),
  },
  {
    route: "/v1/invitations",
    table: "invitations",
    prefix: "inv",
    row: (_, i) => ({ email: `i${i}@example.com`, role: "member", hash: `i${i}`, expires_at: Date.UTC(2040, 0, 1) }),
  },
  {
    route: "/v1/users/{id}/sessions",
    table: "browser_sessions",
    prefix: "brs",
    at: (app) => ({ id: memberOf(app) }),
    row: (app, i) => ({
      hash: `u${i}`,
      method: "key",
      last_used_at: Date.UTC(2030, 0, 1),
      expires_at: Date.UTC(2040, 0, 1),
      key_id: keyOf(app),
      user_id: MEMBER,
    }),
  },
  {
    route: "/v1/users",
    table: "users",
    prefix: "usr",
    row: (app, i) => ({ role: "member", key_id: "key_x", deleted_at: null, person_id: personFor(app, i) }),
  },
];
