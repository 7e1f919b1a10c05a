/** Evaluators score answers. Versions never change; a version is named by id or name@3. */
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import type { Tx } from "../../../platform/db/db.ts";
import { preparedInsert } from "../../../platform/db/row.ts";
import { versionsOf } from "../../../platform/db/versions.ts";
import { mustFind } from "../../serving/deployments/served.ts";
import { type Evaluator, present } from "./schema.ts";
import { type EvaluatorRow, evaluators, type Kind, records } from "./table.ts";

const { table } = records;
const insert = preparedInsert(evaluators);

const versions = versionsOf(table, {
  prefix: "evl",
  missing: (ref) => `No evaluator ${ref}: GET /v1/evaluators lists them`,
  erase(tx, row, now) {
    tx.update(evaluators)
      .set({ deletedAt: now, source: null, description: null, metadata: {}, config: {} as EvaluatorRow["config"] })
      .where(eq(evaluators.id, row.id))
      .run();
    emit(tx, "evaluator.deleted", { workspaceId: row.workspaceId, now }, present(row, null));
  },
});
export const { newest, mustFind: resolve, remove, removeAll } = versions;

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

export function list(ctx: Ctx, workspaceId: string, query: ListQuery) {
  const { kind } = query;
  const within = and(versions.within(workspaceId, query), kind === undefined ? undefined : eq(table.kind, kind));
  return page(ctx.db, table, within, query, (row) => present(row, null));
}

export type NewVersion = Omit<EvaluatorRow, "id" | "version" | "createdAt" | "deletedAt"> & { source: string | null };

export function add(tx: Tx, version: NewVersion, now: number): EvaluatorRow {
  const row = insert(tx, { ...version, ...versions.next(tx, version, now) });
  emit(tx, "evaluator.created", { workspaceId: row.workspaceId, now }, present(row, null));
  return row;
}

export const sourceOf = (ctx: Pick<Ctx, "db">, id: string): string =>
  ctx.db.select({ source: evaluators.source }).from(evaluators).where(eq(evaluators.id, id)).get()?.source ?? "";
