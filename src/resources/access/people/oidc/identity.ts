/** Finds or makes the user behind a verified sign-in at the provider. */
import { and, eq, isNotNull, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { type Db, write } from "../../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../../platform/db/row.ts";
import * as keys from "../../api_keys/service.ts";
import * as sessions from "../../browser_sessions/service.ts";
import * as workspaces from "../../workspaces/service.ts";
import * as persons from "../persons.ts";
import type { Role } from "../policy.ts";
import * as service from "../service.ts";
import { type PersonRow, people, personIdentities, type UserRow, users } from "../table.ts";
import { OidcError } from "./failure.ts";

export type Identity = { issuer: string; subject: string };
export type Visitor = Identity & {
  role: Role;
  /** Undefined: the provider has verified no address. Only a new person needs one. */
  email: string | undefined;
  name: string;
};

const identityRow = preparedRow(
  personIdentities,
  and(eq(personIdentities.issuer, sql.placeholder("issuer")), eq(personIdentities.subject, sql.placeholder("subject"))),
);
const insertIdentity = preparedInsert(personIdentities);

export function workspaceIdOf(ctx: Ctx): string {
  const { workspace: wanted } = ctx.config.oidc;
  const workspace = workspaces.findByName(ctx, wanted) ?? workspaces.find(ctx, wanted);
  if (workspace?.status !== "active") throw new OidcError("no_workspace", `oidc.workspace: ${wanted} is not active`);
  return workspace.id;
}

/** One commit: the person, the link to the provider, the user and the role. */
export function enter(ctx: Ctx, visitor: Visitor): { person: PersonRow; user: UserRow } {
  const workspaceId = workspaceIdOf(ctx);
  return write(ctx.db, (tx) => {
    const { issuer, subject, role, name } = visitor;
    const linkedPerson = knownPerson(tx, visitor);
    const before = linkedPerson ?? personToLink(ctx, tx, visitor);
    const email = before?.email ?? emailOf(visitor);
    const user = service.findIn({ db: tx }, workspaceId, email);
    if (!user && wasRemoved(tx, email, workspaceId))
      throw new OidcError("removed", `${email} was removed from the workspace`);
    if (before && !linkedPerson) service.replaceCredentials(ctx, before.id, null);
    const fresh = { email, name, passwordHash: null, provenBy: "provider", workspaceId: null } as const;
    const person = before ?? persons.add(ctx, fresh);
    if (!linkedPerson) insertIdentity(tx, { issuer, subject, personId: person.id, createdAt: ctx.clock.now() });
    const isOwn = user?.personId === person.id;
    // An invitation of the workspace has made another account for this address: it proves nothing, so it ends.
    if (user && !isOwn) service.remove(ctx, { workspaceId, id: user.id });
    const entered = isOwn
      ? service.setRole(ctx, { workspaceId, id: user.id, role })
      : service.join(ctx, person, { workspaceId, role });
    return { person: service.personOf({ db: tx }, entered), user: entered };
  });
}

/** A known person without a group any more: sessions and keys in the workspace end. Returns the user, for the audit log. */
export function shutOut(ctx: Ctx, identity: Identity): UserRow | undefined {
  return write(ctx.db, () => {
    const user = knownUser(ctx, identity);
    if (user) {
      sessions.removeOfUser(ctx, user.id);
      keys.revokeAllOf(ctx, user.id, { seat: false });
    }
    return user;
  });
}

export function knownUser(ctx: Ctx, identity: Identity): UserRow | undefined {
  const person = knownPerson(ctx.db, identity);
  return person && userIn(ctx.db, person.id, workspaceIdOf(ctx));
}

function knownPerson(db: Db, { issuer, subject }: Identity): PersonRow | undefined {
  const identity = identityRow(db, { issuer, subject });
  return identity && persons.find({ db }, identity.personId);
}

function emailOf({ email, subject }: Visitor): string {
  if (email === undefined) throw new OidcError("no_email", `no verified e-mail address for the subject ${subject}`);
  return email;
}

/** The proven person with this address. Throws if the provider's word is not enough to open that account. */
function personToLink(ctx: Ctx, db: Db, visitor: Visitor): PersonRow | undefined {
  const person = persons.findProven({ db }, emailOf(visitor));
  if (!person) return undefined;
  const isOfProvider = person.provenBy === "provider" && person.passwordHash === null;
  if (!isOfProvider && !ctx.config.oidc.link_existing)
    throw new OidcError("account_exists", `${person.email} was added by the operator, and oidc.link_existing is false`);
  // The provider has given the address of a former colleague to someone else.
  if (persons.hasIdentity({ db }, person.id, visitor.issuer))
    throw new OidcError("account_exists", `${person.email} belongs to another subject of the provider`);
  return person;
}

const userIn = (db: Db, personId: string, workspaceId: string) =>
  service.usersOf(db, personId).find((user) => user.workspaceId === workspaceId);

/** By the address: an owner who removes a person means the person, whichever account it was. */
const wasRemoved = (db: Db, email: string, workspaceId: string) =>
  db
    .select({ id: users.id })
    .from(users)
    .innerJoin(people, eq(people.id, users.personId))
    .where(and(eq(people.email, email), eq(users.workspaceId, workspaceId), isNotNull(users.deletedAt)))
    .limit(1)
    .get() !== undefined;
