/**
 * Addresses that need no key, because a key asked for them: they work until they expire, and no longer than that key
 * and its workspace do. They are told to the one who asked and to nobody else: no log line and no error holds a query.
 */
import { eq, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../context.ts";
import { isRead } from "../../http/audit.ts";
import { rootOf } from "../../http/host.ts";
import { setCaller } from "../../http/request_state.ts";
import { AppError } from "../../lib/errors.ts";
import { oncePer } from "../../lib/once_per.ts";
import { isoTime } from "../../lib/time.ts";
import { prepared } from "../../platform/db/db.ts";
import type { SecretBox } from "../../platform/secrets.ts";
import { apiKeys } from "../api_keys/table.ts";
import { workspaces } from "../workspaces/table.ts";
import { isSigned, readSignedQuery, type SignedUse, signedQuery } from "./signed_url.ts";

const signingKeyOf = oncePer((secrets: SecretBox) => secrets.derive("signed-urls"));

/** Whole seconds, because the address holds seconds. */
export const expiryAfter = (ctx: Ctx, seconds: number | undefined) =>
  Math.ceil(ctx.clock.now() / 1000 + (seconds ?? ctx.config.volumes.url_seconds)) * 1000;

export type Asker = { request: Request; principal: Principal };

/** `path` begins with a slash and is what this server sees, whatever stands before it in http.public_url. */
export function addressFor(ctx: Ctx, { request, principal }: Asker, use: SignedUse, expiresAt: number): string {
  const root = rootOf(ctx, request);
  const grant = { keyId: principal.keyId, expiresAtSeconds: expiresAt / 1000 };
  return `${root}${use.path}?${signedQuery(signingKeyOf(ctx.secrets), use, grant)}`;
}

const REFUSED = "This address is not one that this server signed, or it was changed: ask for another";

/** Whether the request's address was signed for this use; else 403. `use` undefined: there is nothing of the kind. */
export function admit(ctx: Ctx, request: Request, use: SignedUse | undefined) {
  const start = request.url.indexOf("?");
  const given = start < 0 ? undefined : readSignedQuery(new URLSearchParams(request.url.slice(start)));
  if (!given || !use || !isSigned(signingKeyOf(ctx.secrets), use, given))
    throw new AppError("invalid_signature", REFUSED);
  const expiresAt = given.expiresAtSeconds * 1000;
  if (expiresAt <= ctx.clock.now())
    throw new AppError("invalid_signature", `This address expired at ${isoTime(expiresAt)}: ask for another`);
  const workspaceId = workspaceOf(ctx, given.keyId);
  if (workspaceId === undefined)
    throw new AppError("invalid_signature", "The API key that asked for this address no longer works");
  ctx.state.http.rates.spend(given.keyId);
  if (!isRead(request)) ctx.state.http.underWay.enter(request, given.keyId);
  setCaller(request, { workspaceId, keyId: given.keyId });
}

const keyById = prepared((db) =>
  db
    .select({ id: workspaces.id, status: apiKeys.status, expiresAt: apiKeys.expiresAt, workspace: workspaces.status })
    .from(apiKeys)
    .innerJoin(workspaces, eq(workspaces.id, apiKeys.workspaceId))
    .where(eq(apiKeys.id, sql.placeholder("id")))
    .prepare(),
);

/** Undefined: the key works no longer. */
function workspaceOf(ctx: Ctx, keyId: string): string | undefined {
  const key = keyById(ctx.db).get({ id: keyId });
  if (key?.status !== "active" || key.workspace !== "active") return undefined;
  return key.expiresAt === null || key.expiresAt > ctx.clock.now() ? key.id : undefined;
}

/** The path of a signed address, from its parts as they are: how a client or a proxy spells them does not matter. */
export const signedPath = (...segments: string[]) => `/${segments.map(encodeURIComponent).join("/")}`;
