import { z } from "zod";
import { secret, section } from "./section.ts";

const LOOPBACK = /^http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost)(?::\d+)?(?:\/|$)/;

/** Tokens travel to this address, so plain HTTP is for a provider on the same machine alone. */
export const isProviderUrl = (text: string) =>
  URL.canParse(text) && (text.startsWith("https://") || LOOPBACK.test(text)) && !/[?#]/.test(text);

export const oidc = section("Sign-in through an OpenID Connect provider (docs/people.md#sign-in-through-a-provider).", {
  issuer: z
    .string()
    .refine((text) => text === "" || isProviderUrl(text), "expected an https address without a query")
    .default("")
    .describe("Address of the provider, exactly as in its discovery document; empty = no such sign-in."),
  client_id: z.string().default("").describe("Name of this server at the provider."),
  client_secret: secret(z.string().default("").describe("Secret of this server at the provider; empty = PKCE alone.")),
  client_secret_file: z.string().default("").describe("File with the client secret, instead of client_secret."),
  name: z.string().max(60).default("single sign-on").describe("The button says: Sign in with NAME."),
  scopes: z
    .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, "expected a scope without spaces"))
    .default(["openid", "profile", "email"])
    .describe("Scopes to ask for; some providers send groups only with the scope groups."),
  groups_claim: z
    .string()
    .min(1)
    .default("groups")
    .describe("Claim with the person's groups; dots lead into objects, such as realm_access.roles."),
  roles: z
    .array(
      z.string().regex(/^.+=(?:owner|admin|member|viewer|annotator)$/, "expected group=role, such as staff=member"),
    )
    .default([])
    .describe("Roles of groups, as group=role. The highest role counts; people without such a group are refused."),
  workspace: z.string().min(1).default("default").describe("Name or id of the workspace that people enter."),
  trust_email: z
    .boolean()
    .default(false)
    .describe("Take an e-mail address as verified when the provider does not send email_verified."),
  link_existing: z
    .boolean()
    .default(false)
    .describe(
      "Let a verified e-mail address open an account that the operator has added; its password, second factor and sessions end.",
    ),
});

export const isCompleteOidc = ({ issuer, client_id: id, roles }: z.infer<typeof oidc>) =>
  issuer === "" || (id !== "" && roles.length > 0);
