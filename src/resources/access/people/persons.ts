/**
 * Persons and proof. The operator's word proves an address, and so does a provider that has verified it. A proven person is
 * known to the whole installation. An invitation proves nothing, because its maker may open the link: it makes a person of
 * its workspace alone. So several persons may have one address, and each has a password, a second factor and sessions of its
 * own. Triggers of the database refuse a user of an unproven person in another workspace, or as an operator.
 */
import { and, asc, eq, isNotNull, isNull, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { newId } from "../../../lib/ids.ts";
import { type Db, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { hashPassword } from "./sign_in/password.ts";
import { type PersonRow, people, personIdentities } from "./table.ts";

type InDb = Pick<Ctx, "db">;

const insert = preparedInsert(people);
const byId = preparedRow(people, eq(people.id, sql.placeholder("id")));
const isEmail = eq(people.email, sql.placeholder("email"));
const proven = preparedRow(people, and(isEmail, isNull(people.workspaceId)));
const unproven = preparedRow(people, and(isEmail, eq(people.workspaceId, sql.placeholder("workspaceId"))));

export const find = ({ db }: InDb, id: string): PersonRow | undefined => byId(db, { id });

export const findProven = ({ db }: InDb, email: string): PersonRow | undefined => proven(db, { email });

/** The person whom an invitation of this workspace made. */
export const findUnproven = ({ db }: InDb, workspaceId: string, email: string): PersonRow | undefined =>
  unproven(db, { email, workspaceId });

/** All persons with the address: the proven one first, then by age. */
export const withEmail = ({ db }: InDb, email: string): PersonRow[] =>
  db
    .select()
    .from(people)
    .where(eq(people.email, email))
    .orderBy(asc(isNotNull(people.workspaceId)), asc(people.createdAt), asc(people.id))
    .all();

export const hasIdentity = ({ db }: InDb, personId: string, issuer?: string): boolean =>
  db
    .select({ subject: personIdentities.subject })
    .from(personIdentities)
    .where(
      and(
        eq(personIdentities.personId, personId),
        issuer === undefined ? undefined : eq(personIdentities.issuer, issuer),
      ),
    )
    .limit(1)
    .get() !== undefined;

type Proof = { provenBy: "operator" | "provider"; workspaceId: null } | { provenBy: null; workspaceId: string };
export type NewPerson = Pick<PersonRow, "email" | "name" | "passwordHash"> & Proof;

export function add(ctx: Pick<Ctx, "db" | "clock">, person: NewPerson): PersonRow {
  const now = ctx.clock.now();
  const times = { lastSignInAt: null, createdAt: now, updatedAt: now };
  return write(ctx.db, (tx) => insert(tx, { ...person, ...times, id: newId("psn", now) }));
}

/** The hash of a new password. Passwords of one address share a salt: see sign_in/password.ts. */
export const newHash = (ctx: InDb, email: string, password: string): Promise<string> =>
  hashPassword(password, hashesOf(withEmail(ctx, email)));

export const hashesOf = (all: readonly PersonRow[]): string[] =>
  all.flatMap(({ passwordHash }) => (passwordHash === null ? [] : [passwordHash]));

/** Persons of a workspace that is deleted. */
export const ofWorkspace = (db: Db, workspaceId: string): PersonRow[] =>
  db.select().from(people).where(eq(people.workspaceId, workspaceId)).all();
