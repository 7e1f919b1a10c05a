/**
 * Signed URLs. They need no API key, because a key created them. A URL works until it expires, or until its key or
 * workspace stops working. Only the caller gets it: no log line and no error contains a query string.
 */
import { eq, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { isRead } from "../../../http/audit.ts";
import { rootOf } from "../../../http/host.ts";
import { type Caller, setCaller } from "../../../http/request_state.ts";
import { AppError } from "../../../lib/errors.ts";
import { queryOf } from "../../../lib/net/request_target.ts";
import { isoTime } from "../../../lib/time.ts";
import { prepared } from "../../../platform/db/db.ts";
import { apiKeys } from "../../access/api_keys/table.ts";
import { workspaces } from "../../access/workspaces/table.ts";
import { isSigned, readSignedQuery, type SignedUse, signedQuery } from "./signed_url.ts";

const signingKeyOf = ({ secrets }: Ctx) => secrets.derive("signed-urls");

/** Whole seconds, because the URL contains seconds. */
export const expiryAfter = (ctx: Ctx, seconds: number | undefined) =>
  Math.ceil(ctx.clock.now() / 1000 + (seconds ?? ctx.config.volumes.url_seconds)) * 1000;

export type Call = { request: Request; principal: Principal };

/** `use.path` begins with a slash and is the path that this server receives, without the path of http.public_url. */
export function addressFor(ctx: Ctx, call: Call, use: SignedUse, expiresAt: number): string {
  return addressesFor(ctx, call, expiresAt)(use);
}

/** For many addresses of one call. */
export function addressesFor(ctx: Ctx, { request, principal }: Call, expiresAt: number): (use: SignedUse) => string {
  const root = rootOf(ctx, request);
  const key = signingKeyOf(ctx);
  const grant = { keyId: principal.keyId, expiresAtSeconds: expiresAt / 1000 };
  return (use) => `${root}${use.path}?${signedQuery(key, use, grant)}`;
}

const REFUSED = "The signature of this URL is not valid: create another signed URL";

/** Throws a 403 unless the URL was signed for this use. `use` is undefined if the resource does not exist. */
export function admit(ctx: Ctx, request: Request, use: SignedUse | undefined) {
  const grant = readSignedQuery(queryOf(request));
  if (!grant || !use || !isSigned(signingKeyOf(ctx), use, grant)) throw new AppError("invalid_signature", REFUSED);
  const expiresAt = grant.expiresAtSeconds * 1000;
  if (expiresAt <= ctx.clock.now())
    throw new AppError("invalid_signature", `This URL expired at ${isoTime(expiresAt)}: create another signed URL`);
  const owner = ownerOf(ctx, grant.keyId);
  if (owner === undefined)
    throw new AppError(
      "invalid_signature",
      "The API key that created this URL does not work any more: create another with a valid key",
    );
  ctx.state.http.rates.spend(grant.keyId);
  if (!isRead(request)) ctx.state.http.underWay.enter(request, grant.keyId);
  setCaller(request, { ...owner, keyId: grant.keyId });
}

const keyById = prepared((db) =>
  db
    .select({
      workspaceId: workspaces.id,
      userId: apiKeys.userId,
      status: apiKeys.status,
      expiresAt: apiKeys.expiresAt,
      workspace: workspaces.status,
    })
    .from(apiKeys)
    .innerJoin(workspaces, eq(workspaces.id, apiKeys.workspaceId))
    .where(eq(apiKeys.id, sql.placeholder("id")))
    .prepare(),
);

/** Returns undefined if the key does not work any more. */
function ownerOf(ctx: Ctx, keyId: string): Omit<Caller, "keyId"> | undefined {
  const key = keyById(ctx.db).get({ id: keyId });
  if (key?.status !== "active" || key.workspace !== "active") return undefined;
  const { workspaceId, userId, expiresAt } = key;
  return expiresAt === null || expiresAt > ctx.clock.now() ? { workspaceId, userId } : undefined;
}

/** The path of a signed URL from decoded segments, so that the encoding of a client or proxy does not matter. */
export const signedPath = (...segments: string[]) => `/${segments.map(encodeURIComponent).join("/")}`;
