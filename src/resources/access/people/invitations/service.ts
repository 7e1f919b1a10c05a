/** Invitations: made by a manager, sent as a link by any means, accepted once. */
import { and, eq, gt, lte, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../../../context.ts";
import { type PageQuery, page } from "../../../../http/answer/pagination.ts";
import { AppError } from "../../../../lib/errors.ts";
import { newId } from "../../../../lib/ids.ts";
import { DAY_MS, HOUR_MS } from "../../../../lib/units.ts";
import { write } from "../../../../platform/db/db.ts";
import { preparedRow } from "../../../../platform/db/row.ts";
import * as people from "../service.ts";
import { type InvitationRow, invitations } from "../table.ts";
import { type CreateInvitation, type Invitation, present } from "./schema.ts";

const byHash = preparedRow(invitations, eq(invitations.hash, sql.placeholder("hash")));
const hashOf = (token: string): string => Bun.SHA256.hash(token, "hex");

/** Open ones, and those that expired in the last month. */
export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) => {
  const isKept = gt(invitations.expiresAt, ctx.clock.now() - EXPIRED_KEPT_MS);
  return page(ctx.db, invitations, and(eq(invitations.workspaceId, workspaceId), isKept), query, (row) =>
    show(ctx, row),
  );
};

const EXPIRED_KEPT_MS = 30 * DAY_MS;

export function show(ctx: Pick<Ctx, "db" | "clock">, row: InvitationRow): Invitation {
  const by = row.invitedBy === null ? undefined : people.findById(ctx, row.workspaceId, row.invitedBy);
  return present(row, ctx.clock.now(), by ? people.personOf(ctx, by).email : null);
}

/** Behind the #, which browsers send to no server: the token is in no log. */
export const linkOf = (root: string, token: string): string => `${root}/invitation#${token}`;

/** `by`: undefined for the command line. Replaces an open invitation of the same person. */
type Making = CreateInvitation & { workspaceId: string; by?: Principal };

export function create(ctx: Ctx, { workspaceId, by, email, role, expires_in_hours: hours }: Making) {
  if (by) people.requireRight(ctx, by, undefined, role);
  const now = ctx.clock.now();
  const token = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url");
  const row = write(ctx.db, (tx) => {
    people.requireNew({ db: tx }, workspaceId, email); // looks at no other workspace: the answer tells nothing of them
    const ofWorkspace = eq(invitations.workspaceId, workspaceId);
    tx.delete(invitations)
      .where(and(ofWorkspace, eq(invitations.email, email)))
      .run();
    tx.delete(invitations)
      .where(and(ofWorkspace, lte(invitations.expiresAt, now - EXPIRED_KEPT_MS)))
      .run();
    const values = {
      id: newId("inv", now),
      workspaceId,
      email,
      role,
      hash: hashOf(token),
      invitedBy: by?.userId ?? null,
      createdAt: now,
      expiresAt: now + hours * HOUR_MS,
    };
    return tx.insert(invitations).values(values).returning().get();
  });
  return { row, token };
}

export function withdraw(ctx: Ctx, workspaceId: string, id: string, by?: Principal): InvitationRow {
  return write(ctx.db, (tx) => {
    const isInvitation = and(eq(invitations.id, id), eq(invitations.workspaceId, workspaceId));
    const row = tx.select().from(invitations).where(isInvitation).get();
    if (!row) throw new AppError("resource_not_found", `No invitation ${id.slice(0, 80)}`, { param: "id" });
    if (by) people.requireRight(ctx, by, undefined, row.role);
    tx.delete(invitations).where(isInvitation).run();
    return row;
  });
}

/** Throws the same error for a token that never was, was used, was withdrawn, or has expired. */
export function mustFind(ctx: Pick<Ctx, "db" | "clock">, token: string): InvitationRow {
  const row = byHash(ctx.db, { hash: hashOf(token) });
  if (row && row.expiresAt > ctx.clock.now()) return row;
  const message = "token: this invitation was used, was withdrawn, or has expired: ask for a new one";
  throw new AppError("resource_not_found", message, { param: "/token" });
}

/** The invitation that the command line names by its address. */
export function mustFindOf(ctx: Ctx, workspaceId: string, email: string): InvitationRow {
  const isInvitation = and(eq(invitations.workspaceId, workspaceId), eq(invitations.email, email));
  const row = ctx.db.select().from(invitations).where(isInvitation).get();
  if (row) return row;
  throw new AppError("resource_not_found", `${email} has no open invitation to this workspace`, { param: "email" });
}
