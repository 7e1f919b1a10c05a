/** Webhook endpoints. `delivery/` sends events to them. */
import { and, count, eq, ne, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { lastSeq } from "../../../events/consume.ts";
import { emit } from "../../../events/emit.ts";
import { transition } from "../../../events/lifecycle.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import type { Once } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { isoTime } from "../../../lib/time.ts";
import { maskSecret, mintSecret } from "../../../lib/webhooks/signature.ts";
import { afterCommit, type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { enqueueBody } from "./delivery/enqueue.ts";
import { cancelWaiting, holdWaiting, resumeHeld } from "./delivery/held.ts";
import { requireReachable } from "./guard.ts";
import { machine, report } from "./machine.ts";
import { rotate, type Secrets } from "./rotation.ts";
import { type CreateWebhookEndpoint, present, type UpdateWebhookEndpoint, type WebhookEndpoint } from "./schema.ts";
import { openSecrets, sealSecrets } from "./sealing.ts";
import { type EndpointRow, webhookEndpoints } from "./table.ts";

const insert = preparedInsert(webhookEndpoints);
const byId = preparedRow(webhookEndpoints, eq(webhookEndpoints.id, sql.placeholder("id")));

/** Finds deleted endpoints too. */
export const find = (ctx: Pick<Ctx, "db">, id: string): EndpointRow | undefined => byId(ctx.db, { id });

export function mustGet(ctx: Pick<Ctx, "db">, workspaceId: string, id: string): EndpointRow {
  const row = find(ctx, id);
  if (row?.workspaceId !== workspaceId || row.status === "deleted" || row.scheme !== "standard")
    throw new AppError("resource_not_found", `There is no webhook endpoint ${id.slice(0, 80)}`, { param: "id" });
  return row;
}

export function mustBeEnabled(ctx: Pick<Ctx, "db">, workspaceId: string, id: string): EndpointRow {
  const row = mustGet(ctx, workspaceId, id);
  if (row.status === "enabled") return row;
  throw new AppError(
    "unsupported_state",
    `The endpoint ${id} is disabled. Enable it first: PATCH it with {"enabled": true}`,
    { param: "id" },
  );
}

export const show = (ctx: Ctx, row: EndpointRow): WebhookEndpoint =>
  present(row, maskSecret(openSecrets(ctx, row).current));

const livingOf = (workspaceId: string, scheme: EndpointRow["scheme"] = "standard") => {
  const table = webhookEndpoints;
  return and(eq(table.workspaceId, workspaceId), ne(table.status, "deleted"), eq(table.scheme, scheme));
};

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(ctx.db, webhookEndpoints, livingOf(workspaceId), query, (row) => show(ctx, row));

/** The answer holds the full secret. */
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
    const row = add(ctx, tx, workspaceId, { ...input, secrets });
    once?.keep(tx, { ...present(row, maskSecret(secrets.current)), notice: REPEATED });
    return present(row, secrets.current);
  });
}

const REPEATED =
  "The secret is shown in full once, in the first answer to this Idempotency-Key. Reveal it, or rotate it";

type NewEndpoint = CreateWebhookEndpoint & { secrets: Secrets; scheme?: EndpointRow["scheme"] };

function add(ctx: Ctx, tx: Tx, workspaceId: string, input: NewEndpoint): EndpointRow {
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
    scheme: input.scheme ?? "standard",
  });
  emit(tx, "webhook_endpoint.created", { workspaceId, now }, report(row));
  return row;
}

function requireRoom(tx: Tx, workspaceId: string, most: number) {
  const [counted] = tx.select({ number: count() }).from(webhookEndpoints).where(livingOf(workspaceId)).all();
  if ((counted?.number ?? 0) >= most)
    throw new AppError(
      "quota_exceeded",
      `This workspace has ${most} webhook endpoints, which is the limit. Delete one, or ask the operator to raise webhooks.max_per_workspace`,
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
    mustGet(ctx, workspaceId, id); // it may have been deleted since
    change(ctx, tx, id, input);
    if (input.enabled !== undefined) toggle(ctx, tx, id, input.enabled);
    return mustGet(ctx, workspaceId, id);
  });
}

function change(ctx: Ctx, tx: Tx, id: string, { enabled: _, event_types: eventTypes, ...rest }: UpdateWebhookEndpoint) {
  const fields = { ...rest, ...(eventTypes === undefined ? {} : { eventTypes }) };
  if (Object.keys(fields).length === 0) return;
  const now = ctx.clock.now();
  const row = tx
    .update(webhookEndpoints)
    .set({ ...fields, updatedAt: now })
    .where(eq(webhookEndpoints.id, id))
    .returning()
    .get();
  if (row) emit(tx, "webhook_endpoint.updated", { workspaceId: row.workspaceId, now }, report(row));
}

/** Disabling holds the waiting deliveries; enabling resumes those that have not expired. */
function toggle(ctx: Ctx, tx: Tx, id: string, enable: boolean) {
  const now = ctx.clock.now();
  const clean = { consecutiveFailures: 0, disabledAt: null, disabledReason: null };
  if (enable) {
    if (!transition(tx, machine, "enable", { id, now }, clean)) return;
    resumeHeld(tx, id, now);
    afterCommit(tx, () => ctx.wake("webhooks.deliver"));
  } else if (transition(tx, machine, "disable", { id, now }, { disabledReason: "by_hand" })) holdWaiting(tx, id, now);
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

/** The deliveries of the endpoint stay until they are pruned. */
export function remove(ctx: Ctx, workspaceId: string, id: string) {
  write(ctx.db, (tx) => {
    mustGet(ctx, workspaceId, id);
    close(ctx, tx, id);
  });
}

function close(ctx: Ctx, tx: Tx, id: string) {
  const now = ctx.clock.now();
  transition(tx, machine, "delete", { id, now }, { secrets: "", deletedAt: now });
  cancelWaiting(tx, id, now);
}

/** For a workspace that is being deleted. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  write(ctx.db, (tx) => {
    const living = tx.select({ id: webhookEndpoints.id }).from(webhookEndpoints).where(livingOf(workspaceId)).all();
    for (const { id } of living) close(ctx, tx, id);
    pointService(ctx, tx, workspaceId, null);
  });
}

export const servicePoint = ({ db }: Pick<Ctx, "db">, workspaceId: string): EndpointRow | undefined =>
  db.select().from(webhookEndpoints).where(livingOf(workspaceId, "service")).get();

/**
 * Sets the address that gets notifications of detection; null removes it. Returns the secret of a new address. Pending
 * notifications go to the new address. The caller has checked the address with `requireReachable`.
 */
export function pointService(ctx: Ctx, tx: Tx, workspaceId: string, url: string | null): string | undefined {
  const endpoint = servicePoint(ctx, workspaceId);
  if (url === null) {
    if (endpoint) close(ctx, tx, endpoint.id);
    return undefined;
  }
  if (endpoint?.status === "disabled") toggle(ctx, tx, endpoint.id, true);
  if (endpoint?.url === url) return undefined;
  const secrets: Secrets = { current: mintSecret(), replaced: [] };
  if (endpoint) {
    const sealed = { secrets: sealSecrets(ctx, endpoint.id, secrets) };
    tx.update(webhookEndpoints).set(sealed).where(eq(webhookEndpoints.id, endpoint.id)).run();
    change(ctx, tx, endpoint.id, { url });
  } else {
    const input = { url, description: "", event_types: [], metadata: {}, secrets, scheme: "service" as const };
    add(ctx, tx, workspaceId, input);
  }
  return secrets.current;
}

/** Replaces the secret of the address for notifications, at once. Returns undefined if there is no address. */
export function rotateService(ctx: Ctx, tx: Tx, workspaceId: string): string | undefined {
  const endpoint = servicePoint(ctx, workspaceId);
  if (!endpoint) return undefined;
  const secrets: Secrets = { current: mintSecret(), replaced: [] };
  const now = ctx.clock.now();
  const changed = { secrets: sealSecrets(ctx, endpoint.id, secrets), updatedAt: now };
  tx.update(webhookEndpoints).set(changed).where(eq(webhookEndpoints.id, endpoint.id)).run();
  emit(tx, "webhook_endpoint.updated", { workspaceId, now }, report(endpoint));
  return secrets.current;
}

/** Queues a notification in the commit of its cause. Does nothing without an address. */
export function notifyService(ctx: Ctx, tx: Tx, workspaceId: string, notification: { event: string; data: object }) {
  const endpoint = servicePoint(ctx, workspaceId);
  if (!endpoint) return;
  const now = ctx.clock.now();
  const { event: type, data } = notification;
  const body = new TextEncoder().encode(JSON.stringify({ event: type, timestamp: isoTime(now), data }));
  const event = { id: newId("evt", now), workspaceId, type, createdAt: now, body };
  enqueueBody(tx, event, [{ endpoint, trigger: "scheduled", now }]);
  afterCommit(tx, () => ctx.wake("webhooks.deliver"));
}
