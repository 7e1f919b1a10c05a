import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { workspaces } from "../workspaces/table.ts";
import { ROLES } from "./policy.ts";

/** A person: known to the whole installation, or to one workspace if the address is not proven. See persons.ts. */
export const people = sqliteTable("people", {
  id: text("id").primaryKey(),
  /** Lower case. One proven person has it, and one unproven person in each workspace. */
  email: text("email").notNull(),
  name: text("name").notNull(),
  /** Argon2id. Null: this person cannot sign in with a password. */
  passwordHash: text("password_hash"),
  lastSignInAt: integer("last_sign_in_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  /** Null: the address is not proven. */
  provenBy: text("proven_by", { enum: ["operator", "provider"] }),
  /** The only workspace of an unproven person. Null: the address is proven. */
  workspaceId: text("workspace_id").references(() => workspaces.id),
});
export type PersonRow = typeof people.$inferSelect;

/** A person in one workspace. */
export const users = sqliteTable("users", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  personId: text("person_id")
    .notNull()
    .references(() => people.id),
  role: text("role", { enum: ROLES }).notNull(),
  /** Has the scope `admin` as an owner. Only the command line sets it. */
  isOperator: integer("is_operator", { mode: "boolean" }).notNull(),
  /** The seat: the row of api_keys that stands for this user in browser sessions. */
  keyId: text("key_id").notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  /** The row stays: audit entries name the person. */
  deletedAt: integer("deleted_at"),
});
export type UserRow = typeof users.$inferSelect;

/** A person at an OpenID Connect provider. E-mail addresses change hands there; the pair of issuer and subject does not. */
export const personIdentities = sqliteTable(
  "person_identities",
  {
    issuer: text("issuer").notNull(),
    subject: text("subject").notNull(),
    personId: text("person_id")
      .notNull()
      .references(() => people.id),
    createdAt: integer("created_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.issuer, t.subject] })],
);

/** The second factor of a person: a secret for one-time codes. */
export const secondFactors = sqliteTable("second_factors", {
  personId: text("person_id")
    .primaryKey()
    .references(() => people.id),
  sealed: text("sealed").notNull(),
  /** Null: begun, but no code has proved yet that the person has the secret. */
  confirmedAt: integer("confirmed_at"),
  /** Time step of the newest code that was used. Codes of this step and of older ones are refused. */
  lastStep: integer("last_step").notNull(),
  recoveryHashes: text("recovery_hashes", { mode: "json" }).$type<string[]>().notNull(),
  createdAt: integer("created_at").notNull(),
});
export type SecondFactorRow = typeof secondFactors.$inferSelect;

/** An invitation that is open. Accepting or withdrawing it deletes the row. */
export const invitations = sqliteTable("invitations", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  email: text("email").notNull(), // lower case
  role: text("role", { enum: ROLES }).notNull(),
  hash: text("hash").notNull().unique(), // of the token in the link
  /** User; null: the key of a service, or the command line. */
  invitedBy: text("invited_by"),
  createdAt: integer("created_at").notNull(),
  expiresAt: integer("expires_at").notNull(),
});
export type InvitationRow = typeof invitations.$inferSelect;
