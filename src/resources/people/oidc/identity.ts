/** Finds or makes the user behind a verified sign-in at the provider. */
import { and, eq, isNotNull, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { type Db, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import * as keys from "../../api_keys/service.ts";
import * as sessions from "../../browser_sessions/service.ts";
import * as workspaces from "../../workspaces/service.ts";
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
const personById = preparedRow(people, eq(people.id, sql.placeholder("id")));

export function workspaceIdOf(ctx: Ctx): string {
  const { workspace: wanted } = ctx.config.oidc;
  const found = workspaces.findByName(ctx, wanted) ?? workspaces.find(ctx, wanted);
  if (found?.status !== "active") throw new OidcError("no_workspace", `oidc.workspace: ${wanted} is not active`);
  return found.id;
}

/** One commit: the person, the link to the provider, the user and the role. */
export function enter(ctx: Ctx, visitor: Visitor): { person: PersonRow; user: UserRow } {
  const workspaceId = workspaceIdOf(ctx);
  return write(ctx.db, (tx) => {
    const { issuer, subject, role, name } = visitor;
    const known = knownPerson(tx, visitor);
    const before = known ?? personToLink(ctx, tx, visitor);
    const user = before ? userIn(tx, before.id, workspaceId) : undefined;
    if (before && !user && wasRemoved(tx, before.id, workspaceId))
      throw new OidcError("removed", `${before.email} was removed from the workspace`);
    const email = before?.email ?? emailOf(visitor);
    const entered = user
      ? service.setRole(ctx, { workspaceId, id: user.id, role })
      : service.add(ctx, { workspaceId, email, name, role, passwordHash: null });
    if (!known) insertIdentity(tx, { issuer, subject, personId: entered.personId, createdAt: ctx.clock.now() });
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
  const found = identityRow(db, { issuer, subject });
  return found && personById(db, { id: found.personId });
}

function emailOf({ email, subject }: Visitor): string {
  if (email === undefined) throw new OidcError("no_email", `no verified e-mail address for the subject ${subject}`);
  return email;
}

/** The person with this address. Throws if the provider's word is not enough to open that account. */
function personToLink(ctx: Ctx, db: Db, visitor: Visitor): PersonRow | undefined {
  const person = service.findPerson({ db }, emailOf(visitor));
  if (!person) return undefined;
  if (person.passwordHash !== null && !ctx.config.oidc.link_existing)
    throw new OidcError("account_exists", `${person.email} has a password, and oidc.link_existing is false`);
  // The provider has given the address of a former colleague to someone else.
  if (hasOther(db, person.id, visitor.issuer))
    throw new OidcError("account_exists", `${person.email} belongs to another subject of the provider`);
  return person;
}

const hasOther = (db: Db, personId: string, issuer: string) =>
  db
    .select({ subject: personIdentities.subject })
    .from(personIdentities)
    .where(and(eq(personIdentities.personId, personId), eq(personIdentities.issuer, issuer)))
    .limit(1)
    .get() !== undefined;

const userIn = (db: Db, personId: string, workspaceId: string) =>
  service.usersOf(db, personId).find((user) => user.workspaceId === workspaceId);

const wasRemoved = (db: Db, personId: string, workspaceId: string) =>
  db
    .select({ id: users.id })
    .from(users)
    .where(and(eq(users.personId, personId), eq(users.workspaceId, workspaceId), isNotNull(users.deletedAt)))
    .limit(1)
    .get() !== undefined;
