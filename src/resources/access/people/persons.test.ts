import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../../test/harness.ts";
import { closeDb, openDb } from "../../../platform/db/db.ts";
import { migrate } from "../../../platform/db/migrate.ts";
import { MIGRATIONS } from "../../../platform/db/migrations/index.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test("S1: the migration keeps a password only where it is known who has set it", () => {
  const db = openDb({ path: join(dir, "verk.db") });
  const before = MIGRATIONS.filter(({ version }) => version < 73);
  migrate(db, join(dir, "backups"), before);
  const { $client: sqlite } = db;
  const insert = (table: string, row: Record<string, string | number | null>) =>
    sqlite
      .query(`INSERT INTO ${table} (${Object.keys(row)}) VALUES (${Object.keys(row).map(() => "?")})`)
      .run(...Object.values(row));
  const times = { created_at: 1, updated_at: 1 };
  for (const name of ["alpha", "beta"])
    insert("workspaces", { ...times, id: name, name, status: "active", payment_customer_id: name, metadata: "{}" });
  const key = { ...times, id: "k", workspace_id: "alpha", name: "k", prefix: "", hash: "h", status: "active" };
  insert("api_keys", { ...key, scopes: "[]", metadata: "{}" });

  type Made = { in: string; by: "cli" | "invitation"; operator?: boolean; deleted?: boolean };
  function add(id: string, made: Made[], { identity = false } = {}) {
    insert("people", { ...times, id, email: `${id}@example.com`, name: id, password_hash: "hash" });
    insert("second_factors", { person_id: id, sealed: "x", created_at: 1 });
    if (identity) insert("person_identities", { issuer: "i", subject: id, person_id: id, created_at: 1 });
    for (const [i, each] of made.entries()) {
      const user = { id: `${id}-${i}`, workspace_id: each.in, person_id: id, role: "owner", key_id: "k" };
      const isOperator = each.operator ? 1 : 0;
      insert("users", { ...times, ...user, is_operator: isOperator, deleted_at: each.deleted ? 1 : null });
      insert("browser_sessions", {
        id: `s${user.id}`,
        hash: user.id,
        workspace_id: each.in,
        key_id: "k",
        user_id: user.id,
        method: "password",
        created_at: 1,
        last_used_at: 1,
        expires_at: 9,
      });
      if (each.by === "cli" && !each.operator)
        insert("audit_log", {
          workspace_id: each.in,
          id: `a${user.id}`,
          key_id: "cli:root",
          method: "CLI",
          path: "verk users add",
          made: user.id,
          status: 200,
          request_id: "r",
          created_at: 1,
        });
    }
  }
  const invitation = { by: "invitation" } as const;
  const cli = { by: "cli" } as const;
  add("invited", [{ in: "beta", ...invitation }]);
  add("added", [{ in: "alpha", ...cli }]);
  add("added-twice", [
    { in: "alpha", ...cli },
    { in: "beta", ...cli },
  ]);
  add("operator", [{ in: "alpha", ...cli, operator: true }]);
  add("hijacked", [
    { in: "beta", ...invitation },
    { in: "alpha", ...cli, operator: true },
  ]);
  add("claimed-between", [
    { in: "alpha", ...cli, deleted: true },
    { in: "beta", ...invitation, deleted: true },
    { in: "alpha", ...cli },
  ]);
  add("of-provider", [{ in: "alpha", ...invitation }], { identity: true });
  add("left", [{ in: "beta", ...invitation, deleted: true }]);

  expect(migrate(db, join(dir, "backups"), [...before, ...MIGRATIONS.filter(({ version }) => version === 73)])).toBe(1);
  expect(sqlite.query("PRAGMA foreign_key_check").all()).toEqual([]);
  const rows = sqlite
    .query<Record<string, string | number | null>, []>(
      `SELECT id, proven_by, workspace_id, password_hash,
         (SELECT count(*) FROM second_factors WHERE person_id = people.id) AS factors,
         (SELECT count(*) FROM browser_sessions JOIN users ON users.id = user_id WHERE person_id = people.id) AS sessions
       FROM people ORDER BY created_at, rowid`,
    )
    .values();
  const ended = [null, 0, 0];
  expect(rows).toEqual([
    ["invited", null, "beta", "hash", 1, 1],
    ["added", "operator", null, "hash", 1, 1],
    ["added-twice", "operator", null, "hash", 1, 2],
    ["operator", "operator", null, "hash", 1, 1],
    ["hijacked", "operator", null, ...ended],
    ["claimed-between", "operator", null, ...ended],
    ["of-provider", "provider", null, ...ended],
    ["left", null, "beta", "hash", 1, 1],
  ]);
  const again = { ...times, email: "invited@example.com", name: "x" };
  expect(() => insert("people", { ...again, id: "p1", proven_by: "operator" })).not.toThrow();
  expect(() => insert("people", { ...again, id: "p2", proven_by: "operator" })).toThrow("UNIQUE");
  expect(() => insert("people", { ...again, id: "p3", workspace_id: "alpha" })).not.toThrow();
  expect(() => insert("people", { ...again, id: "p4", workspace_id: "alpha" })).toThrow("UNIQUE");
  expect(() => insert("people", { ...again, id: "p5" })).toThrow("CHECK");
  closeDb(db);
});
