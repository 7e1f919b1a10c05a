/**
 * Access tokens of a Google service account (RFC 7523). A JWT signed with its key is exchanged for a token, which is
 * kept in memory until shortly before it expires. The key itself never leaves this process.
 */
import { createPrivateKey, sign } from "node:crypto";
import { z } from "zod";
import { outside, tryOutside } from "../../lib/json/outside.ts";
import { readText } from "./body.ts";
import type { Dialer } from "./dialer.ts";
import { SourceError } from "./types.ts";

const ServiceAccount = z.object({
  client_email: z.string().min(1),
  private_key: z.string().min(1),
  private_key_id: z.string().optional(),
  token_uri: z.string().default("https://oauth2.googleapis.com/token"),
  project_id: z.string().optional(),
});
export type ServiceAccount = z.infer<typeof ServiceAccount>;

const PARAM = "/credentials/service_account";

/** Reads the key file, as an object or as its text. */
export function readServiceAccount(account: unknown, param = PARAM): ServiceAccount {
  let value = account;
  if (typeof account === "string")
    try {
      value = JSON.parse(account);
    } catch {
      // No cause: the parser's message quotes the key.
      throw new SourceError("invalid_source", "The service account is not JSON. Paste the whole key file", param);
    }
  const parsed = ServiceAccount.safeParse(value);
  if (!parsed.success) {
    const field = parsed.error.issues[0]?.path.join(".");
    const problem = field ? `has no ${field}` : "is not a JSON object";
    throw new SourceError("invalid_source", `The service account ${problem}. Paste the whole key file`, param);
  }
  return parsed.data;
}

/** Signs header and claims with RS256. Snowflake's key pairs use it too. */
export function signJwt(claims: object, key: string | { key: string; passphrase: string }, kid?: string): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const head = `${part({ alg: "RS256", typ: "JWT", ...(kid === undefined ? {} : { kid }) })}.${part(claims)}`;
  return `${head}.${sign("RSA-SHA256", Buffer.from(head), createPrivateKey(key)).toString("base64url")}`;
}

const EARLY_MS = 60_000;
const TOKEN = outside(
  "the answer of Google's token service",
  z.object({ access_token: z.string().min(1).max(50_000), expires_in: z.number().positive().default(3600) }),
);
const REFUSED = outside("the error of Google's token service", z.object({ error: z.string().max(40).optional() }));

export function googleToken(
  account: ServiceAccount,
  scope: string,
  dialer: Dialer,
): (signal: AbortSignal) => Promise<string> {
  let held: { token: string; until: number } | undefined;
  return async (signal) => {
    if (held && Date.now() < held.until) return held.token;
    const { access_token, expires_in } = await exchange(account, scope, dialer, signal);
    const ms = expires_in * 1000;
    held = { token: access_token, until: Date.now() + ms - Math.min(EARLY_MS, ms / 2) };
    return access_token;
  };
}

async function exchange(account: ServiceAccount, scope: string, dialer: Dialer, signal: AbortSignal) {
  const response = await dialer.fetch(account.token_uri, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded", accept: "application/json" },
    body: new URLSearchParams({
      grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
      assertion: assertion(account, scope),
    }).toString(),
    signal,
  });
  const text = await readText(response, 100_000);
  const token = response.status === 200 ? tryOutside(TOKEN, text) : undefined;
  if (token) return token;
  if (response.status < 500)
    throw new SourceError(
      "unauthorized",
      `Google rejects the key of ${account.client_email} (${response.status} ${oauthError(text)}). Check that the key is still active`,
      PARAM,
    );
  throw new SourceError("unreachable", `Google's token service answered ${response.status}. Try again later`);
}

function assertion(account: ServiceAccount, scope: string): string {
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: account.client_email, scope, aud: account.token_uri, iat: now, exp: now + 3600 };
  try {
    return signJwt(claims, account.private_key, account.private_key_id);
  } catch {
    // No cause: its message may quote the key.
    throw new SourceError("invalid_source", "private_key of the service account is not a PEM private key", PARAM);
  }
}

/** Returns an RFC 6749 error code such as invalid_grant. Other text of the answer is not repeated. */
function oauthError(text: string): string {
  const error = tryOutside(REFUSED, text)?.error;
  return error !== undefined && /^[a-z_]{1,40}$/.test(error) ? error : "no reason given";
}
