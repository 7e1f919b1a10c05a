import { z } from "zod";
import { DateTime, later, Notice } from "../../../../lib/schema.ts";
import { isoTime } from "../../../../lib/time.ts";
import { Email, PersonName, Role } from "../schema.ts";
import type { InvitationRow } from "../table.ts";

export const Invitation = later(() =>
  z
    .object({
      object: z.literal("invitation"),
      id: z.string(),
      email: z.string(),
      role: Role,
      status: z.enum(["open", "expired"]).describe("Expired: the link no longer works"),
      invited_by: z
        .string()
        .nullable()
        .describe("E-mail address of the user; null: a key of a service, or the command line"),
      created_at: DateTime,
      expires_at: DateTime,
    })
    .meta({ id: "Invitation" }),
);
export type Invitation = z.infer<typeof Invitation>;

export const CreatedInvitation = later(() =>
  Invitation.unwrap()
    .extend({
      url: z
        .string()
        .optional()
        .describe("The link for the invited person. It works once. Only the first answer has it"),
      notice: Notice,
    })
    .meta({ id: "CreatedInvitation" }),
);
export type CreatedInvitation = z.infer<typeof CreatedInvitation>;

export const CreateInvitation = z
  .object({
    email: Email,
    role: Role.default("member"),
    expires_in_hours: z.int().min(1).max(720).default(72),
  })
  .meta({ id: "CreateInvitation" });
export type CreateInvitation = z.infer<typeof CreateInvitation>;

export const AcceptInvitation = z
  .object({
    token: z.string().min(1).max(200).describe("The part of the link behind the #"),
    has_account: z
      .boolean()
      .default(false)
      .describe(
        "True: join with your account on this server, whose address the operator or a provider has proven. False: make an account of this workspace alone",
      ),
    name: PersonName.optional().describe("Name of the person, for a new account"),
    password: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .describe("The new password. With has_account: its password; not needed in a browser that is signed in to it"),
    code: z.string().trim().min(1).max(40).optional().describe("With has_account: a code of its second factor"),
  })
  .meta({ id: "AcceptInvitation" });
export type AcceptInvitation = z.infer<typeof AcceptInvitation>;

export const present = (row: InvitationRow, now: number, invitedBy: string | null): Invitation => ({
  object: "invitation",
  id: row.id,
  email: row.email,
  role: row.role,
  status: row.expiresAt > now ? "open" : "expired",
  invited_by: invitedBy,
  created_at: isoTime(row.createdAt),
  expires_at: isoTime(row.expiresAt),
});
