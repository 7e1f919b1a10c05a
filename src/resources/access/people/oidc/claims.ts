/** Reads what the provider says of a person. */
import { z } from "zod";
import type { Config } from "../../../../platform/config/config.ts";
import { ROLES, type Role } from "../policy.ts";
import { Email, PersonName } from "../schema.ts";

export type Claims = Readonly<Record<string, unknown>>;

/** The value of a claim. A name with dots is tried as it is first: some providers use addresses as names. */
function claimOf(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  let value: unknown = claims;
  for (const part of name.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Claims)[part];
  }
  return value;
}

const Groups = z.union([z.array(z.string()), z.string().transform((group) => [group])]);

/** Undefined: the claim is missing. */
export function groupsOf(claims: Claims, name: string): string[] | undefined {
  const { data } = Groups.safeParse(claimOf(claims, name));
  return data;
}

/** The highest role of these groups by the lines `group=role`. */
export function roleOf(groups: readonly string[], lines: readonly string[]): Role | undefined {
  const roles = new Set<string>();
  for (const line of lines) {
    const at = line.lastIndexOf("=");
    if (groups.includes(line.slice(0, at))) roles.add(line.slice(at + 1));
  }
  return ROLES.find((role) => roles.has(role));
}

/** Undefined: the claims have no address that the provider has verified. */
export function verifiedEmailOf(claims: Claims, { trust_email: trusts }: Config["oidc"]): string | undefined {
  const isVerified = claims["email_verified"] === undefined ? trusts : claims["email_verified"] === true;
  const { data } = Email.safeParse(claims["email"]);
  return isVerified ? data : undefined;
}

export function nameOf(claims: Claims, email: string): string {
  const { data } = PersonName.safeParse(claims["name"]);
  return data ?? email.split("@")[0] ?? email;
}
