import { z } from "zod";
import { PageQuery } from "../../../http/answer/pagination.ts";
import { DateTime, isoOrNull, Label, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { ROLES } from "./policy.ts";
import type { PersonRow, UserRow } from "./table.ts";

export const Role = z
  .enum(ROLES)
  .describe(
    "owner and admin: everything in the workspace; member: training, inference, detection; viewer: reads; annotator: annotation queues",
  );

/** One spelling for each address: sign-in and invitations compare it. */
export const Email = z
  .string()
  .trim()
  .toLowerCase()
  .max(254)
  .regex(/^[^\s@<>"']+@[^\s@<>"']+$/, "expected an e-mail address such as ada@example.com");

const MIN_PASSWORD = 10;

/** Length is what counts; no rule of characters. The longest is bounded, because each attempt hashes it. */
export const NewPassword = z
  .string()
  .min(MIN_PASSWORD)
  .max(200)
  .refine((text) => new Set(text).size >= 5, "use at least five different characters")
  .describe(`${MIN_PASSWORD} to 200 characters`);

export const PersonName = Label(100);

export const User = later(() =>
  z
    .object({
      object: z.literal("user"),
      id: z.string(),
      email: z.string(),
      name: z.string(),
      role: Role,
      operator: z.boolean().describe("True: an owner who also manages the installation"),
      second_factor: z.boolean().describe("True: sign-in needs a code of an authenticator app too"),
      sessions: z.int().describe("Browser sessions in this workspace that go on"),
      last_seen_at: DateTime.nullable().describe("Last use of one of them. Null if there is none"),
      last_sign_in_at: DateTime.nullable().describe("Null before the first sign-in, to any workspace"),
      created_at: DateTime,
    })
    .meta({ id: "User" }),
);
export type User = z.infer<typeof User>;

export const UpdateUser = z.object({ role: Role.optional() }).meta({ id: "UpdateUser" });
export type UpdateUser = z.infer<typeof UpdateUser>;

export const UsersQuery = PageQuery;

type Use = { sessions: number; lastUsedAt: number | null };

export const present = (row: UserRow, person: PersonRow, hasSecondFactor: boolean, use: Use): User => ({
  object: "user",
  id: row.id,
  email: person.email,
  name: person.name,
  role: row.role,
  operator: row.role === "owner" && row.isOperator,
  second_factor: hasSecondFactor,
  sessions: use.sessions,
  last_seen_at: isoOrNull(use.lastUsedAt),
  last_sign_in_at: isoOrNull(person.lastSignInAt),
  created_at: isoTime(row.createdAt),
});
