import { z } from "zod";
import { SCOPES } from "../../../../context.ts";
import { later } from "../../../../lib/schema.ts";
import { NewPassword, Role, User } from "../schema.ts";

export const Me = later(() =>
  z
    .object({
      object: z.literal("me"),
      user: User.unwrap().nullable().describe("Null: the key of this request belongs to a service"),
      workspace: z.object({ id: z.string(), name: z.string() }),
      key: z.object({ id: z.string(), name: z.string(), scopes: z.array(z.enum(SCOPES)) }),
      workspaces: z
        .array(z.object({ id: z.string(), name: z.string(), role: Role }))
        .describe("All workspaces of this person; empty for a service"),
      has_password: z.boolean().describe("False: this person signs in another way"),
      recovery_codes_left: z.int().nullable().describe("Null: no second factor"),
    })
    .meta({ id: "Me" }),
);
export type Me = z.infer<typeof Me>;

const Password = z.string().min(1).max(200).describe("The password of this person");
const Code = z.string().trim().min(1).max(40);

export const BeginSecondFactor = z.object({ password: Password }).meta({ id: "BeginSecondFactor" });

export const SecondFactorSecret = later(() =>
  z
    .object({
      object: z.literal("second_factor_secret"),
      secret: z.string().describe("For typing into an authenticator app: base32"),
      otpauth_uri: z.string().describe("The same for a link or a QR code"),
    })
    .meta({ id: "SecondFactorSecret" }),
);
export type SecondFactorSecret = z.infer<typeof SecondFactorSecret>;

export const ConfirmSecondFactor = z
  .object({ code: Code.describe("The six digits that the app shows now") })
  .meta({ id: "ConfirmSecondFactor" });

export const RecoveryCodes = later(() =>
  z
    .object({
      object: z.literal("recovery_codes"),
      recovery_codes: z.array(z.string()).describe("Each replaces one code of the app, once. Never shown again"),
    })
    .meta({ id: "RecoveryCodes" }),
);
export type RecoveryCodes = z.infer<typeof RecoveryCodes>;

export const RemoveSecondFactor = z
  .object({ password: Password, code: Code.describe("A code of the app, or a recovery code") })
  .meta({ id: "RemoveSecondFactor" });

export const ChangePassword = z
  .object({ password: Password, new_password: NewPassword })
  .meta({ id: "ChangePassword" });
