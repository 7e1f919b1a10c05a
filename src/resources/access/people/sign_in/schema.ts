import { z } from "zod";
import { later } from "../../../../lib/schema.ts";
import { Email } from "../schema.ts";

export const SignIn = z
  .object({
    email: Email,
    password: z.string().min(1).max(200),
    code: z
      .string()
      .trim()
      .min(1)
      .max(40)
      .optional()
      .describe("Code of the authenticator app, or a recovery code; needed if the person has a second factor"),
    workspace: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .describe("Name or id; without it the first that the person joined"),
  })
  .meta({ id: "SignIn" });
export type SignIn = z.infer<typeof SignIn>;

export const SignInOptions = later(() =>
  z
    .object({
      object: z.literal("sign_in_options"),
      password: z.boolean().describe("True: this server has users, who sign in with e-mail address and password"),
      oidc: z
        .object({ name: z.string() })
        .nullable()
        .describe("The OpenID Connect provider of this server; null: none"),
    })
    .meta({ id: "SignInOptions" }),
);
export type SignInOptions = z.infer<typeof SignInOptions>;
