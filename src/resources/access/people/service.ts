/** Users: people with a role in a workspace. A user's seat in `api_keys` carries the scopes of the role. */
import { and, asc, eq, getTableColumns, isNotNull, isNull, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { type Db, type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import * as keys from "../api_keys/service.ts";
import * as sessions from "../browser_sessions/service.ts";
import * as persons from "./persons.ts";
import { managerRole, mayManage, type Role, scopesOf } from "./policy.ts";
import { present, type User } from "./schema.ts";
import { invitations, type PersonRow, people, secondFactors, type UserRow, users } from "./table.ts";

const insertUser = preparedInsert(users);
const isMember = isNull(users.deletedAt);
const userById = preparedRow(
  users,
  and(eq(users.id, sql.placeholder("id")), eq(users.workspaceId, sql.placeholder("workspaceId")), isMember),
);
const factorOf = preparedRow(
  secondFactors,
  and(eq(secondFactors.personId, sql.placeholder("personId")), isNotNull(secondFactors.confirmedAt)),
);

export const findById = ({ db }: Pick<Ctx, "db">, workspaceId: string, id: string): UserRow | undefined =>
  userById(db, { id, workspaceId });

export function mustGet(ctx: Pick<Ctx, "db">, workspaceId: string, id: string): UserRow {
  const row = findById(ctx, workspaceId, id);
  if (!row) throw new AppError("resource_not_found", `No user ${id.slice(0, 80)}`, { param: "id" });
  return row;
}

/** By the address: of all persons who have it, one is a user of the workspace. */
export const findIn = ({ db }: Pick<Ctx, "db">, workspaceId: string, email: string): UserRow | undefined =>
  db
    .select(getTableColumns(users))
    .from(users)
    .innerJoin(people, eq(people.id, users.personId))
    .where(and(eq(people.email, email), eq(users.workspaceId, workspaceId), isMember))
    .get();

export function mustFind(ctx: Pick<Ctx, "db">, workspaceId: string, email: string): UserRow {
  const row = findIn(ctx, workspaceId, email);
  if (!row) throw new AppError("resource_not_found", `${email} is not a user of this workspace`, { param: "email" });
  return row;
}

/** Throws if the address has a user in the workspace. */
export function requireNew(ctx: Pick<Ctx, "db">, workspaceId: string, email: string) {
  if (findIn(ctx, workspaceId, email))
    throw new AppError("name_taken", `${email} is a user of this workspace already`, { param: "/email" });
}

export function personOf(ctx: Pick<Ctx, "db">, { personId }: UserRow): PersonRow {
  const row = persons.find(ctx, personId);
  if (!row) throw new Error(`the person ${personId} of a user is missing`);
  return row;
}

export const show = (ctx: Pick<Ctx, "db" | "clock" | "state">, row: UserRow): User =>
  present(
    row,
    personOf(ctx, row),
    factorOf(ctx.db, { personId: row.personId }) !== undefined,
    sessions.useOf(ctx, row.keyId),
  );

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(ctx.db, users, and(eq(users.workspaceId, workspaceId), isMember), query, (row) => show(ctx, row));

/** The users of a person, in the order in which they joined their workspaces. */
export const usersOf = (db: Db, personId: string): UserRow[] =>
  db
    .select()
    .from(users)
    .where(and(eq(users.personId, personId), isMember))
    .orderBy(asc(users.createdAt), asc(users.id))
    .all();

type Membership = { workspaceId: string; role: Role; isOperator?: boolean };

/** Makes a user of a person. The caller must have the person's own proof, or the operator's word. */
export function join(ctx: Ctx, person: PersonRow, { workspaceId, role, isOperator = false }: Membership): UserRow {
  return write(ctx.db, (tx) => {
    requireNew({ db: tx }, workspaceId, person.email);
    const now = ctx.clock.now();
    const id = newId("usr", now);
    const scopes = scopesOf(role, isOperator);
    const seat = keys.createSeat(ctx, { workspaceId, userId: id, name: person.email, scopes });
    const times = { createdAt: now, updatedAt: now, deletedAt: null };
    return insertUser(tx, { id, workspaceId, personId: person.id, role, isOperator, keyId: seat.id, ...times });
  });
}

type Named = Pick<PersonRow, "email" | "name">;

/** Accepts an invitation: makes a person of this workspace alone, also if other persons have the address. */
export function claim(ctx: Ctx, { email, name, passwordHash, ...to }: Membership & Named & { passwordHash: string }) {
  return write(ctx.db, (tx) => {
    const before = persons.findUnproven({ db: tx }, to.workspaceId, email); // was removed from the workspace
    const { workspaceId } = to;
    const person = before ?? persons.add(ctx, { email, name, passwordHash, provenBy: null, workspaceId });
    const user = join(ctx, person, to);
    if (before) replaceCredentials(ctx, before.id, passwordHash);
    return user;
  });
}

/** `passwordHash`: null for a person without a password; undefined keeps the credentials of a proven person. */
type Vouched = Membership & Named & { passwordHash: string | null | undefined };

/** The operator's word proves the address. A person who was proven before gets new credentials, unless they are kept. */
export function vouch(ctx: Ctx, { email, name, passwordHash, ...to }: Vouched): UserRow {
  return write(ctx.db, (tx) => {
    const before = findIn({ db: tx }, to.workspaceId, email);
    if (before && personOf({ db: tx }, before).provenBy === null)
      throw new AppError(
        "name_taken",
        `${email} is a user of this workspace by an invitation, which proves no address. Remove the user first (\`verk users remove\`): its password, sessions and keys end`,
      );
    const person = persons.findProven({ db: tx }, email);
    if (!person && passwordHash === undefined)
      throw new AppError("unsupported_state", `${email} is not proven, so there is no password to keep`);
    const fresh = { email, name, passwordHash: passwordHash ?? null, provenBy: "operator", workspaceId: null } as const;
    const user = join(ctx, person ?? persons.add(ctx, fresh), to);
    if (person && passwordHash !== undefined) replaceCredentials(ctx, person.id, passwordHash);
    return user;
  });
}

/** `manager`: undefined for the operator at the command line, who may do everything. */
type Change = { workspaceId: string; id: string; manager?: Principal };

export function setRole(ctx: Ctx, { role, ...change }: Change & { role: Role }): UserRow {
  return write(ctx.db, (tx) => {
    const row = mustGet({ db: tx }, change.workspaceId, change.id);
    if (row.role === role) return row;
    requireManager(ctx, change, row, role);
    keys.limitUser(ctx, row.id, scopesOf(role, row.isOperator));
    tx.delete(invitations).where(eq(invitations.invitedBy, row.id)).run(); // made with the rights of the old role
    const set = { role, updatedAt: ctx.clock.now() };
    return tx.update(users).set(set).where(eq(users.id, row.id)).returning().get() ?? row;
  });
}

/** Throws unless the caller may see and end the sessions of this user: their own, or those of a user they manage. */
export function requireSessionRight(ctx: Ctx, caller: Principal, user: UserRow) {
  if (caller.userId !== user.id) requireRight(ctx, caller, user.role, user.role);
}

/** Revokes the keys of the user and ends the sessions. The person stays a user of other workspaces. */
export function remove(ctx: Ctx, change: Change): UserRow {
  return write(ctx.db, (tx) => {
    const row = mustGet({ db: tx }, change.workspaceId, change.id);
    requireManager(ctx, change, row, undefined);
    markDeleted(ctx, tx, row.id);
    return row;
  });
}

function markDeleted(ctx: Ctx, tx: Tx, id: string) {
  const now = ctx.clock.now();
  keys.revokeAllOf(ctx, id, { seat: true });
  sessions.removeOfUser(ctx, id);
  tx.delete(invitations).where(eq(invitations.invitedBy, id)).run();
  tx.update(users).set({ deletedAt: now, updatedAt: now }).where(eq(users.id, id)).run();
}

export function removeAll(ctx: Ctx, workspaceId: string) {
  write(ctx.db, (tx) => {
    for (const { id } of membersOf(tx, workspaceId)) markDeleted(ctx, tx, id);
    for (const { id } of persons.ofWorkspace(tx, workspaceId)) replaceCredentials(ctx, id, null);
    tx.delete(invitations).where(eq(invitations.workspaceId, workspaceId)).run();
  });
}

const membersOf = (db: Db, workspaceId: string): UserRow[] =>
  db
    .select()
    .from(users)
    .where(and(eq(users.workspaceId, workspaceId), isMember))
    .all();

/** Throws unless the manager may change this user to `to`, and an owner is left afterwards. */
function requireManager(ctx: Ctx, { workspaceId, manager }: Change, { id, role }: UserRow, to: Role | undefined) {
  if (!manager) return;
  requireRight(ctx, manager, role, to);
  if (role !== "owner" || to === "owner") return;
  const others = membersOf(ctx.db, workspaceId).filter((user) => user.role === "owner" && user.id !== id);
  if (others.length === 0)
    throw new AppError("unsupported_state", "The last owner of a workspace stays: make another user an owner first");
}

/** Throws unless the caller may give the role `to` to a user with the role `from`. */
export function requireRight(ctx: Ctx, manager: Principal, from: Role | undefined, to: Role | undefined) {
  const { workspaceId, userId, scopes } = manager;
  const role = userId ? userById(ctx.db, { id: userId, workspaceId })?.role : undefined;
  if (mayManage(managerRole(scopes, role), from, to)) return;
  const message = "role: only an owner may add, change or remove an owner";
  throw new AppError("missing_scope", message, { param: "/role" });
}

/** For changes of the person, who may be a user of workspaces that this manager knows nothing of. */
export function requirePersonRight(ctx: Ctx, manager: Principal, user: UserRow) {
  requireRight(ctx, manager, user.role, user.role);
  if (manager.scopes.includes("admin") || usersOf(ctx.db, user.personId).length === 1) return;
  throw new AppError("missing_scope", "This person has other workspaces too: ask the operator of the server");
}

/** Every session of the person ends, in all workspaces. */
export function setPassword(ctx: Ctx, personId: string, passwordHash: string | null, { keep }: { keep?: string } = {}) {
  write(ctx.db, (tx) => {
    tx.update(people).set({ passwordHash, updatedAt: ctx.clock.now() }).where(eq(people.id, personId)).run();
    for (const { id } of usersOf(tx, personId)) sessions.removeOfUser(ctx, id, keep);
  });
}

/** The older password, the second factor and every session of the person end. */
export function replaceCredentials(ctx: Ctx, personId: string, passwordHash: string | null) {
  write(ctx.db, (tx) => {
    setPassword(ctx, personId, passwordHash);
    tx.delete(secondFactors).where(eq(secondFactors.personId, personId)).run();
  });
}

/** True if the sign-in page should offer a password. */
export const hasPasswords = ({ db }: Pick<Ctx, "db">): boolean =>
  db
    .select({ id: users.id })
    .from(users)
    .innerJoin(people, eq(people.id, users.personId))
    .where(and(isMember, isNotNull(people.passwordHash)))
    .limit(1)
    .get() !== undefined;
