import { z } from "zod";
import { secret, section, setting, type ValuesOf } from "./section.ts";

const LOOPBACK = /^http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost)(?::\d+)?(?:\/|$)/;

/** Tokens travel to this address, so plain HTTP is for a provider on the same machine alone. */
export const isProviderUrl = (text: string) =>
  URL.canParse(text) && (text.startsWith("https://") || LOOPBACK.test(text)) && !/[?#]/.test(text);

export const oidc = section("Sign-in through an OpenID Connect provider (docs/people.md#sign-in-through-a-provider).", {
  issuer: setting("", "Address of the provider, exactly as in its discovery document; empty = no such sign-in.", () =>
    z.string().refine((text) => text === "" || isProviderUrl(text), "expected an https address without a query"),
  ),
  client_id: setting("", "Name of this server at the provider.", () => z.string()),
  client_secret: secret(setting("", "Secret of this server at the provider; empty = PKCE alone.", () => z.string())),
  client_secret_file: setting("", "File with the client secret, instead of client_secret.", () => z.string()),
  name: setting("single sign-on", "The button says: Sign in with NAME.", () => z.string().max(60)),
  scopes: setting(
    ["openid", "profile", "email"],
    "Scopes to ask for; some providers send groups only with the scope groups.",
    () => z.array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, "expected a scope without spaces")),
  ),
  groups_claim: setting(
    "groups",
    "Claim with the person's groups; dots lead into objects, such as realm_access.roles.",
    () => z.string().min(1),
  ),
  roles: setting(
    [],
    "Roles of groups, as group=role. The highest role counts; people without such a group are refused.",
    () =>
      z.array(
        z.string().regex(/^.+=(?:owner|admin|member|viewer|annotator)$/, "expected group=role, such as staff=member"),
      ),
  ),
  workspace: setting("default", "Name or id of the workspace that people enter.", () => z.string().min(1)),
  trust_email: setting(
    false,
    "Take an e-mail address as verified when the provider does not send email_verified.",
    () => z.boolean(),
  ),
  link_existing: setting(
    false,
    "Let a verified e-mail address open an account that the operator has added; its password, second factor and sessions end.",
    () => z.boolean(),
  ),
});

export const isCompleteOidc = ({ issuer, client_id: id, roles }: ValuesOf<{ oidc: typeof oidc }>["oidc"]) =>
  issuer === "" || (id !== "" && roles.length > 0);
