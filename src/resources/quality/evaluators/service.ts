/** Evaluators score answers. Versions never change; a version is named by id or name@3. */
import { and, desc, eq, isNull, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { isId, newId } from "../../../lib/ids.ts";
import { type Db, type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert } from "../../../platform/db/row.ts";
import { mustFind } from "../../serving/deployments/served.ts";
import { type Evaluator, present } from "./schema.ts";
import { type EvaluatorRow, evaluators, type Kind, records } from "./table.ts";

const { table } = records;
const insert = preparedInsert(evaluators);
const there = isNull(table.deletedAt);

/** A version's name, such as `helpful@3`. */
const VERSION = /^(.+)@(\d{1,9})$/;

/** Finds by id, by name@3, or the newest version by name. */
function find({ db }: Pick<Ctx, "db">, workspaceId: string, ref: string): EvaluatorRow | undefined {
  if (isId(ref, "evl")) return first(db, workspaceId, eq(table.id, ref));
  const [, name, version] = VERSION.exec(ref) ?? [];
  if (name !== undefined) return first(db, workspaceId, and(eq(table.name, name), eq(table.version, Number(version))));
  return newest(db, workspaceId, ref);
}

const first = (db: Db | Tx, workspaceId: string, where: SQL | undefined) =>
  db
    .select()
    .from(table)
    .where(and(eq(table.workspaceId, workspaceId), there, where))
    .orderBy(desc(table.version))
    .limit(1)
    .get();

export const newest = (db: Db | Tx, workspaceId: string, name: string): EvaluatorRow | undefined =>
  first(db, workspaceId, eq(table.name, name));

/** `ref`: an id, a name (the newest version) or name@3. `param`: for errors. */
export function resolve(ctx: Pick<Ctx, "db">, workspaceId: string, ref: string, param = "id"): EvaluatorRow {
  const row = find(ctx, workspaceId, ref);
  if (row) return row;
  throw new AppError("resource_not_found", `No evaluator ${ref.slice(0, 80)}: GET /v1/evaluators lists them`, {
    param,
  });
}

/** `deployment`: an id or a name. `param`: JSON pointer to the field that names it, directly or through an evaluator. */
export function mustServe(ctx: Ctx, workspaceId: string, deployment: string, param: string) {
  try {
    mustFind(ctx, workspaceId, deployment);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const message = error.message.replace(/^model: /, "");
    throw new AppError(error.code, `The evaluator's deployment: ${message}`, { param, cause: error });
  }
}

/** The record with the source of the kind `code`. */
export const get = (ctx: Ctx, workspaceId: string, ref: string): Evaluator => {
  const row = resolve(ctx, workspaceId, ref);
  return present(row, row.kind === "code" ? sourceOf(ctx, row.id) : null);
};

type ListQuery = PageQuery & { name?: string | undefined; kind?: Kind | undefined; latest: boolean };

export function list(ctx: Ctx, workspaceId: string, { name, kind, latest, ...query }: ListQuery) {
  const isNewest = sql`NOT EXISTS (SELECT 1 FROM evaluators newer WHERE newer.workspace_id = ${table.workspaceId}
    AND newer.name = ${table.name} AND newer.version > ${table.version} AND newer.deleted_at IS NULL)`;
  const within = and(
    eq(table.workspaceId, workspaceId),
    there,
    name === undefined ? undefined : eq(table.name, name),
    kind === undefined ? undefined : eq(table.kind, kind),
    latest ? isNewest : undefined,
  );
  return page(ctx.db, table, within, query, (row) => present(row, null));
}

export type NewVersion = Omit<EvaluatorRow, "id" | "version" | "createdAt" | "deletedAt"> & { source: string | null };

/** The version is counted inside the commit, so concurrent requests leave no gap. */
export function add(tx: Tx, version: NewVersion, now: number): EvaluatorRow {
  const { last } = tx
    .select({ last: sql<number>`coalesce(max(${table.version}), 0)` })
    .from(table)
    .where(and(eq(table.workspaceId, version.workspaceId), eq(table.name, version.name)))
    .get() ?? { last: 0 };
  const row = insert(tx, { ...version, id: newId("evl", now), version: last + 1, createdAt: now, deletedAt: null });
  emit(tx, "evaluator.created", { workspaceId: row.workspaceId, now }, present(row, null));
  return row;
}

/** Deletes one version, by id or name@3. */
export function remove(ctx: Ctx, workspaceId: string, ref: string): EvaluatorRow {
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const row = resolve({ db: tx as Db }, workspaceId, ref);
    if (ref === row.name)
      throw new AppError(
        "invalid_request",
        `${ref} is a name, which may have several versions: delete one version by its id (${row.id}) or as ${ref}@${row.version}`,
        { param: "id" },
      );
    erase(tx, row, now);
    return row;
  });
}

function erase(tx: Tx, row: EvaluatorRow, now: number) {
  tx.update(evaluators)
    .set({ deletedAt: now, source: null, description: null, metadata: {}, config: {} as EvaluatorRow["config"] })
    .where(eq(evaluators.id, row.id))
    .run();
  emit(tx, "evaluator.deleted", { workspaceId: row.workspaceId, now }, present(row, null));
}

/** For a deleted workspace. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const all = tx
      .select()
      .from(table)
      .where(and(eq(table.workspaceId, workspaceId), there))
      .all();
    for (const row of all) erase(tx, row, now);
  });
}

export const sourceOf = (ctx: Pick<Ctx, "db">, id: string): string =>
  ctx.db.select({ source: evaluators.source }).from(evaluators).where(eq(evaluators.id, id)).get()?.source ?? "";
