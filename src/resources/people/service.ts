/** Users: people with a role in a workspace. A user's seat in `api_keys` carries the scopes of the role. */
import { and, asc, eq, isNotNull, isNull, sql } from "drizzle-orm";
import type { Ctx, Principal } from "../../context.ts";
import { type PageQuery, page } from "../../http/answer/pagination.ts";
import { AppError } from "../../lib/errors.ts";
import { newId } from "../../lib/ids.ts";
import { type Db, type Tx, write } from "../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../platform/db/row.ts";
import * as keys from "../api_keys/service.ts";
import * as sessions from "../browser_sessions/service.ts";
import { managerRole, mayManage, type Role, scopesOf } from "./policy.ts";
import { present, type User } from "./schema.ts";
import { invitations, type PersonRow, people, secondFactors, type UserRow, users } from "./table.ts";

const insertUser = preparedInsert(users);
const insertPerson = preparedInsert(people);
const there = isNull(users.deletedAt);
const userById = preparedRow(
  users,
  and(eq(users.id, sql.placeholder("id")), eq(users.workspaceId, sql.placeholder("workspaceId")), there),
);
const personById = preparedRow(people, eq(people.id, sql.placeholder("id")));
const personByEmail = preparedRow(people, eq(people.email, sql.placeholder("email")));
const factorOf = preparedRow(
  secondFactors,
  and(eq(secondFactors.personId, sql.placeholder("personId")), isNotNull(secondFactors.confirmedAt)),
);

export const findPerson = (ctx: Pick<Ctx, "db">, email: string): PersonRow | undefined =>
  personByEmail(ctx.db, { email });

export function mustGet(ctx: Pick<Ctx, "db">, workspaceId: string, id: string): UserRow {
  const row = userById(ctx.db, { id, workspaceId });
  if (!row) throw new AppError("resource_not_found", `No user ${id.slice(0, 80)}`, { param: "id" });
  return row;
}

/** By the address, which is unique in a workspace. */
export function mustFind(ctx: Pick<Ctx, "db">, workspaceId: string, email: string): UserRow {
  const person = findPerson(ctx, email);
  const row = person && usersOf(ctx.db, person.id).find((user) => user.workspaceId === workspaceId);
  if (!row) throw new AppError("resource_not_found", `${email} is not a user of this workspace`, { param: "email" });
  return row;
}

export function personOf({ db }: Pick<Ctx, "db">, { personId }: UserRow): PersonRow {
  const row = personById(db, { id: personId });
  if (!row) throw new Error(`the person ${personId} of a user is missing`);
  return row;
}

export const show = (ctx: Pick<Ctx, "db">, row: UserRow): User =>
  present(row, personOf(ctx, row), factorOf(ctx.db, { personId: row.personId }) !== undefined);

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(ctx.db, users, and(eq(users.workspaceId, workspaceId), there), query, (row) => show(ctx, row));

/** The users of a person, in the order in which they joined their workspaces. */
export const usersOf = (db: Db, personId: string): UserRow[] =>
  db
    .select()
    .from(users)
    .where(and(eq(users.personId, personId), there))
    .orderBy(asc(users.createdAt), asc(users.id))
    .all();

export type NewUser = {
  workspaceId: string;
  email: string;
  name: string;
  role: Role;
  isOperator?: boolean;
  /** For a person who is not known yet. A known person keeps the name and the password. */
  passwordHash: string | null;
};

export function add(ctx: Ctx, { workspaceId, role, isOperator = false, ...person }: NewUser): UserRow {
  return write(ctx.db, (tx) => {
    const { id: personId } = findPerson({ db: tx }, person.email) ?? addPerson(ctx, tx, person);
    if (usersOf(tx, personId).some((user) => user.workspaceId === workspaceId))
      throw new AppError("name_taken", `${person.email} is a user of this workspace already`, { param: "/email" });
    const now = ctx.clock.now();
    const id = newId("usr", now);
    const seat = keys.createSeat(ctx, {
      workspaceId,
      userId: id,
      name: person.email,
      scopes: scopesOf(role, isOperator),
    });
    const times = { createdAt: now, updatedAt: now, deletedAt: null };
    return insertUser(tx, { id, workspaceId, personId, role, isOperator, keyId: seat.id, ...times });
  });
}

function addPerson(ctx: Ctx, tx: Tx, person: Pick<PersonRow, "email" | "name" | "passwordHash">): PersonRow {
  const now = ctx.clock.now();
  return insertPerson(tx, { ...person, id: newId("psn", now), lastSignInAt: null, createdAt: now, updatedAt: now });
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
    tx.delete(invitations).where(eq(invitations.workspaceId, workspaceId)).run();
  });
}

const membersOf = (db: Db, workspaceId: string): UserRow[] =>
  db
    .select()
    .from(users)
    .where(and(eq(users.workspaceId, workspaceId), there))
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
  const own = userId ? userById(ctx.db, { id: userId, workspaceId })?.role : undefined;
  if (mayManage(managerRole(scopes, own), from, to)) return;
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
export function setPassword(ctx: Ctx, personId: string, passwordHash: string, { keep }: { keep?: string } = {}) {
  write(ctx.db, (tx) => {
    tx.update(people).set({ passwordHash, updatedAt: ctx.clock.now() }).where(eq(people.id, personId)).run();
    for (const { id } of usersOf(tx, personId)) sessions.removeOfUser(ctx, id, keep);
  });
}

/** True if the sign-in page should offer a password. */
export const hasPasswords = ({ db }: Pick<Ctx, "db">): boolean =>
  db
    .select({ id: users.id })
    .from(users)
    .innerJoin(people, eq(people.id, users.personId))
    .where(and(there, isNotNull(people.passwordHash)))
    .limit(1)
    .get() !== undefined;
