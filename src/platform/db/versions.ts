/**
 * Versions of named things, such as agents. Each version is a row that never changes, and its number counts up for the
 * name within its workspace. A version is named by its id, by name@3, or by the name: the newest. The owner decides what
 * a version holds and when two are the same.
 */
import { and, desc, eq, isNull, type SQL, sql } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { AppError } from "../../lib/errors.ts";
import { isId, newId, type Prefix } from "../../lib/ids.ts";
import type { Clock } from "../clock.ts";
import { type Db, type Tx, write } from "./db.ts";
import { preparedRow } from "./row.ts";

type Columns = Record<"id" | "workspaceId" | "name" | "version" | "deletedAt", SQLiteColumn>;
type Named = { workspaceId: string; name: string };
type VersionTable = SQLiteTable & Columns & { readonly $inferSelect: Named & { id: string; version: number } };

type Owner<T extends VersionTable> = {
  prefix: Prefix;
  /** The message for a reference that has no version. `isName`: it is neither an id nor name@3. */
  missing: (ref: string, isName: boolean) => string;
  /** A name means its newest version of these, if it has one. */
  preferred?: SQL;
  /** Sets `deletedAt`, erases the content, and emits the event. */
  erase: (tx: Tx, row: T["$inferSelect"], now: number) => void;
};

type Reach = { db: Db };
type TimedReach = Reach & { clock: Clock };

/** A version's name, such as `helpful@3`. */
const VERSION = /^(.+)@(\d{1,9})$/;

export function versionsOf<T extends VersionTable>(table: T, { prefix, missing, preferred, erase }: Owner<T>) {
  const columns: Columns = table;
  const there = isNull(columns.deletedAt);
  const mine = eq(columns.workspaceId, sql.placeholder("workspaceId"));
  const named = and(mine, eq(columns.name, sql.placeholder("name")));
  const newestFirst = desc(columns.version);
  const byId = preparedRow(table, and(mine, there, eq(columns.id, sql.placeholder("id"))));
  const byVersion = preparedRow(table, and(named, there, eq(columns.version, sql.placeholder("version"))));
  const newestOf = preparedRow(table, and(named, there), newestFirst);
  const preferredOf = preferred && preparedRow(table, and(named, there, preferred), newestFirst);
  const lastOf = preparedRow(table, named, newestFirst);

  const isNewest = sql`NOT EXISTS (SELECT 1 FROM ${table} newer WHERE newer.workspace_id = ${columns.workspaceId}
    AND newer.name = ${columns.name} AND newer.version > ${columns.version} AND newer.deleted_at IS NULL)`;

  const newest = ({ db }: Reach, workspaceId: string, name: string) => newestOf(db, { workspaceId, name });

  function find({ db }: Reach, workspaceId: string, ref: string): T["$inferSelect"] | undefined {
    if (isId(ref, prefix)) return byId(db, { workspaceId, id: ref });
    const [, name, version] = VERSION.exec(ref) ?? [];
    if (name !== undefined) return byVersion(db, { workspaceId, name, version: Number(version) });
    return preferredOf?.(db, { workspaceId, name: ref }) ?? newestOf(db, { workspaceId, name: ref });
  }

  function mustFind(reach: Reach, workspaceId: string, ref: string, param = "id"): T["$inferSelect"] {
    const row = find(reach, workspaceId, ref);
    if (row) return row;
    const isName = !isId(ref, prefix) && !VERSION.test(ref);
    throw new AppError("resource_not_found", missing(ref.slice(0, 80), isName), { param });
  }

  /** The condition for a list. `latest`: only the newest version of each name. */
  const within = (workspaceId: string, { name, latest }: { name?: string | undefined; latest: boolean }) =>
    and(
      eq(columns.workspaceId, workspaceId),
      there,
      name === undefined ? undefined : eq(columns.name, name),
      latest ? isNewest : undefined,
    );

  /**
   * The columns that number the next version of a name. It is counted inside the commit, so concurrent requests leave
   * no gap. Deleted versions count: a number never gets another meaning.
   */
  const next = (tx: Tx, { workspaceId, name }: Named, now: number) => {
    const last = lastOf(tx, { workspaceId, name })?.version ?? 0;
    return { id: newId(prefix, now), workspaceId, name, version: last + 1, createdAt: now, deletedAt: null };
  };

  /** Deletes one version, by id or name@3. */
  function remove({ db, clock }: TimedReach, workspaceId: string, ref: string): T["$inferSelect"] {
    const row = mustFind({ db }, workspaceId, ref);
    if (ref === row.name)
      throw new AppError(
        "invalid_request",
        `${ref} is a name, which may have several versions: delete one version by its id (${row.id}) or as ${ref}@${row.version}`,
        { param: "id" },
      );
    write(db, (tx) => erase(tx, row, clock.now()));
    return row;
  }

  /** For a deleted workspace. */
  function removeAll({ db, clock }: TimedReach, workspaceId: string) {
    const now = clock.now();
    write(db, (tx) => {
      const every = within(workspaceId, { latest: false });
      for (const { id } of tx
        .select({ id: sql<string>`${columns.id}` })
        .from(table)
        .where(every)
        .all())
        erase(tx, mustFind({ db: tx }, workspaceId, id), now);
    });
  }

  return { newest, find, mustFind, within, next, remove, removeAll };
}
