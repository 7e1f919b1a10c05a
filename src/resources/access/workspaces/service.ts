import { and, eq, ne, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { transition } from "../../../events/lifecycle.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { withUniqueName } from "../../../platform/db/errors.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import * as billing from "../../money/billing/service.ts";
import { machine } from "./machine.ts";
import { type CreateWorkspace, present, type UpdateWorkspace } from "./schema.ts";
import { type WorkspaceRow, workspaces } from "./table.ts";

const byId = preparedRow(workspaces, and(eq(workspaces.id, sql.placeholder("id")), ne(workspaces.status, "deleted")));

const insert = preparedInsert(workspaces);

export const find = (ctx: Pick<Ctx, "db">, id: string): WorkspaceRow | undefined => byId(ctx.db, { id });

export function mustGet(ctx: Ctx, id: string): WorkspaceRow {
  const row = byId(ctx.db, { id });
  if (!row) throw new AppError("resource_not_found", `No workspace ${id.slice(0, 80)}`, { param: "id" });
  return row;
}

/** The exact condition of the index workspaces_living. With a parameter SQLite would not use the index. */
const isLiving = sql`${workspaces.status} <> 'deleted'`;

export const list = (ctx: Ctx, query: PageQuery) => page(ctx.db, workspaces, isLiving, query, present);

export function findByName(ctx: Ctx, name: string): WorkspaceRow | undefined {
  return ctx.db
    .select()
    .from(workspaces)
    .where(and(eq(workspaces.name, name), ne(workspaces.status, "deleted")))
    .get();
}

export const findByCustomer = (ctx: Pick<Ctx, "db">, customer: string): WorkspaceRow | undefined =>
  ctx.db
    .select()
    .from(workspaces)
    .where(and(eq(workspaces.paymentCustomerId, customer), ne(workspaces.status, "deleted")))
    .get();

/** Creates a workspace with its starting credit. */
export function create(ctx: Ctx, input: CreateWorkspace): WorkspaceRow {
  const now = ctx.clock.now();
  return naming(input.name, () =>
    write(ctx.db, (tx) => {
      const row = insert(tx, {
        id: newId("ws", now),
        name: input.name,
        status: machine.initial,
        paymentCustomerId: newId("cus", now),
        metadata: input.metadata,
        createdAt: now,
        updatedAt: now,
      });
      emit(tx, "workspace.created", { workspaceId: row.id, now }, present(row));
      billing.open(ctx, tx, row.id);
      return row;
    }),
  );
}

/** The workspace that commands use if they name none. */
export const DEFAULT_NAME = "default";

export function update(ctx: Ctx, id: string, input: UpdateWorkspace): WorkspaceRow {
  const before = mustGet(ctx, id);
  if (input.name === DEFAULT_NAME && before.name !== DEFAULT_NAME)
    throw new AppError(
      "invalid_request",
      "name: `default` is reserved for the workspace that commands use if they name none: choose another name",
      { param: "/name" },
    );
  const now = ctx.clock.now();
  return naming(input.name ?? "", () =>
    write(ctx.db, (tx) => {
      const patch = {
        ...(input.name === undefined ? {} : { name: input.name }),
        ...(input.metadata === undefined ? {} : { metadata: input.metadata }),
      };
      const row = tx
        .update(workspaces)
        .set({ ...patch, updatedAt: now })
        .where(eq(workspaces.id, id))
        .returning()
        .get();
      emit(tx, "workspace.updated", { workspaceId: id, now }, present(row));
      return row;
    }),
  );
}

export const suspend = (ctx: Ctx, id: string) => move(ctx, id, "suspend");
export const resume = (ctx: Ctx, id: string) => move(ctx, id, "resume");

/** The row stays for `workspaces.retention_days`, so that old ids and events keep their meaning. The name is free. */
export function remove(ctx: Ctx, id: string): WorkspaceRow {
  const { name } = mustGet(ctx, id);
  const row = move(ctx, id, "remove", { name: `${name} (deleted ${id})` });
  ctx.wake("workspaces.purge");
  return row;
}

function move(
  ctx: Ctx,
  id: string,
  action: "suspend" | "resume" | "remove",
  patch: { name?: string } = {},
): WorkspaceRow {
  const { status } = mustGet(ctx, id);
  const step = (tx: Tx) => transition(tx, machine, action, { id, now: ctx.clock.now() }, patch);
  const row = write(ctx.db, step);
  if (!row) throw new AppError("unsupported_state", `Workspace ${id} is ${status}: ${action} is not possible`);
  return row;
}

const naming = <T>(name: string, fn: () => T): T =>
  withUniqueName(`A workspace named ${JSON.stringify(name)} exists: choose another name`, fn);
