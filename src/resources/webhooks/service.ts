/** Webhook endpoints: where events are sent. What is sent there, and how it went, is in the modules beside. */
import { and, count, eq, ne, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { lastSeq } from "../../events/consume.ts";
import { emit } from "../../events/emit.ts";
import { transition } from "../../events/lifecycle.ts";
import type { Once } from "../../http/idempotency.ts";
import { type PageQuery, page } from "../../http/pagination.ts";
import { AppError } from "../../lib/errors.ts";
import { newId } from "../../lib/ids.ts";
import { rotate, type Secrets } from "../../lib/webhooks/rotation.ts";
import { maskSecret, mintSecret } from "../../lib/webhooks/signature.ts";
import { type Tx, write } from "../../platform/db.ts";
import { preparedInsert, preparedRow } from "../../platform/row.ts";
import { cancelWaiting } from "./cancel.ts";
import { requireReachable } from "./guard.ts";
import { machine, report } from "./machine.ts";
import { type CreateWebhookEndpoint, present, type UpdateWebhookEndpoint, type WebhookEndpoint } from "./schema.ts";
import { openSecrets, sealSecrets } from "./sealing.ts";
import { type EndpointRow, webhookEndpoints } from "./table.ts";

const insert = preparedInsert(webhookEndpoints);
const byId = preparedRow(webhookEndpoints, eq(webhookEndpoints.id, sql.placeholder("id")));

/** Also one that is deleted. */
export const find = (ctx: Pick<Ctx, "db">, id: string): EndpointRow | undefined => byId(ctx.db, { id });

export function mustGet(ctx: Pick<Ctx, "db">, workspaceId: string, id: string): EndpointRow {
  const row = find(ctx, id);
  if (row?.workspaceId !== workspaceId || row.status === "deleted")
    throw new AppError("resource_not_found", `No webhook endpoint ${id.slice(0, 80)}`, { param: "id" });
  return row;
}

export function mustBeEnabled(ctx: Pick<Ctx, "db">, workspaceId: string, id: string): EndpointRow {
  const row = mustGet(ctx, workspaceId, id);
  if (row.status === "enabled") return row;
  throw new AppError("unsupported_state", `${id} is disabled: PATCH it with enabled: true first`, { param: "id" });
}

export const shown = (ctx: Ctx, row: EndpointRow): WebhookEndpoint =>
  present(row, maskSecret(openSecrets(ctx, row).current));

const livingOf = (workspaceId: string) =>
  and(eq(webhookEndpoints.workspaceId, workspaceId), ne(webhookEndpoints.status, "deleted"));

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(ctx.db, webhookEndpoints, livingOf(workspaceId), query, (row) => shown(ctx, row));

/** The answer holds the whole secret. */
export async function create(
  ctx: Ctx,
  workspaceId: string,
  input: CreateWebhookEndpoint,
  once?: Once,
): Promise<WebhookEndpoint> {
  const before = once && write(ctx.db, (tx) => once.before(tx));
  if (before) return before as WebhookEndpoint; // what was kept below
  await requireReachable(ctx, input.url);
  return write(ctx.db, (tx) => {
    requireRoom(tx, workspaceId, ctx.config.webhooks.max_per_workspace);
    const secrets: Secrets = { current: mintSecret(), replaced: [] };
    const answer = present(add(ctx, tx, workspaceId, { ...input, secrets }), secrets.current);
    once?.keep(tx, answer);
    return answer;
  });
}

function add(ctx: Ctx, tx: Tx, workspaceId: string, input: CreateWebhookEndpoint & { secrets: Secrets }): EndpointRow {
  const now = ctx.clock.now();
  const id = newId("whk", now);
  const row = insert(tx, {
    id,
    workspaceId,
    url: input.url,
    description: input.description,
    eventTypes: input.event_types,
    secrets: sealSecrets(ctx, id, input.secrets),
    status: machine.initial,
    consecutiveFailures: 0,
    disabledAt: null,
    disabledReason: null,
    metadata: input.metadata,
    afterSeq: lastSeq(tx),
    createdAt: now,
    updatedAt: now,
    deletedAt: null,
  });
  emit(tx, "webhook_endpoint.created", { workspaceId, now }, report(row));
  return row;
}

function requireRoom(tx: Tx, workspaceId: string, most: number) {
  const [found] = tx.select({ number: count() }).from(webhookEndpoints).where(livingOf(workspaceId)).all();
  if ((found?.number ?? 0) >= most)
    throw new AppError(
      "quota_exceeded",
      `This workspace has ${most} webhook endpoints: delete one, or have webhooks.max_per_workspace raised`,
    );
}

export async function update(
  ctx: Ctx,
  workspaceId: string,
  id: string,
  input: UpdateWebhookEndpoint,
): Promise<EndpointRow> {
  mustGet(ctx, workspaceId, id);
  if (input.url !== undefined) await requireReachable(ctx, input.url);
  return write(ctx.db, (tx) => {
    mustGet(ctx, workspaceId, id); // it may be gone since
    change(ctx, tx, id, input);
    if (input.enabled !== undefined) toggle(ctx, tx, id, input.enabled);
    return mustGet(ctx, workspaceId, id);
  });
}

function change(ctx: Ctx, tx: Tx, id: string, { enabled: _, event_types: eventTypes, ...rest }: UpdateWebhookEndpoint) {
  const given = { ...rest, ...(eventTypes === undefined ? {} : { eventTypes }) };
  if (Object.keys(given).length === 0) return;
  const now = ctx.clock.now();
  const row = tx
    .update(webhookEndpoints)
    .set({ ...given, updatedAt: now })
    .where(eq(webhookEndpoints.id, id))
    .returning()
    .get();
  if (row) emit(tx, "webhook_endpoint.updated", { workspaceId: row.workspaceId, now }, report(row));
}

/** What was cancelled meanwhile stays so, to be recovered. */
function toggle(ctx: Ctx, tx: Tx, id: string, enable: boolean) {
  const now = ctx.clock.now();
  const clean = { consecutiveFailures: 0, disabledAt: null, disabledReason: null };
  if (enable) transition(tx, machine, "enable", { id, now }, clean);
  else if (transition(tx, machine, "disable", { id, now }, { disabledReason: "by_hand" })) cancelWaiting(tx, id, now);
}

export function rotateSecret(ctx: Ctx, workspaceId: string, id: string, graceSeconds: number): EndpointRow {
  return write(ctx.db, (tx) => {
    const old = mustGet(ctx, workspaceId, id);
    const now = ctx.clock.now();
    const secrets = rotate(openSecrets(ctx, old), mintSecret(), { nowMs: now, graceMs: graceSeconds * 1000 });
    const changed = { secrets: sealSecrets(ctx, id, secrets), updatedAt: now };
    tx.update(webhookEndpoints).set(changed).where(eq(webhookEndpoints.id, id)).run();
    const row = { ...old, ...changed };
    emit(tx, "webhook_endpoint.updated", { workspaceId, now }, report(row));
    return row;
  });
}

export const revealSecret = (ctx: Ctx, workspaceId: string, id: string) => ({
  object: "webhook_secret" as const,
  id,
  secret: openSecrets(ctx, mustGet(ctx, workspaceId, id)).current,
});

/** Its deliveries stay until they are old. */
export function remove(ctx: Ctx, workspaceId: string, id: string) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    mustGet(ctx, workspaceId, id);
    transition(tx, machine, "delete", { id, now }, { secrets: "", deletedAt: now });
    cancelWaiting(tx, id, now);
  });
}

/** For a workspace that goes. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const living = ctx.db.select({ id: webhookEndpoints.id }).from(webhookEndpoints).where(livingOf(workspaceId)).all();
  for (const { id } of living) remove(ctx, workspaceId, id);
}
