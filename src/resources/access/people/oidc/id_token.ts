/** Verifies an ID token (OpenID Connect Core 3.1.3.7). */
import { createLocalJWKSet, errors, type JSONWebKeySet, jwtVerify } from "jose";
import type { Claims } from "./claims.ts";
import { OidcError } from "./failure.ts";

/** Signatures with a key pair. `none` and HMAC are never taken, whatever the provider's keys are. */
const ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA", "Ed25519"];
/** The clocks of provider and server may be this far apart. */
const SKEW_SECONDS = 60;
/** A token is used right after it is made, whatever lifetime the provider gives it. */
const LONGEST_AGE_SECONDS = 600;

export type Expected = { keys: JSONWebKeySet; issuer: string; clientId: string; nonce: string; nowMs: number };
export type IdToken = Claims & { sub: string };

export const isUnknownKey = (error: unknown): boolean =>
  error instanceof OidcError && error.cause instanceof errors.JWKSNoMatchingKey;

export async function verifyIdToken(token: string, expected: Expected): Promise<IdToken> {
  const { keys, issuer, clientId, nonce, nowMs } = expected;
  const { payload } = await jwtVerify(token, createLocalJWKSet(keys), {
    algorithms: ALGORITHMS,
    issuer,
    audience: clientId,
    requiredClaims: ["sub", "exp", "iat", "nonce"],
    clockTolerance: SKEW_SECONDS,
    maxTokenAge: LONGEST_AGE_SECONDS,
    currentDate: new Date(nowMs),
  }).catch((cause: Error) => {
    throw new OidcError("invalid_token", `the ID token is not valid: ${cause.message}`, { cause });
  });
  const { sub, aud, azp } = payload;
  if (payload["nonce"] !== nonce) throw new OidcError("invalid_token", "the ID token has another nonce");
  // A token for several receivers must name the one that asked for it.
  if (azp === undefined ? Array.isArray(aud) && aud.length > 1 : azp !== clientId)
    throw new OidcError("invalid_token", "the ID token was made for another client (azp)");
  if (typeof sub !== "string" || sub === "" || sub.length > 255)
    throw new OidcError("invalid_token", "the ID token has no usable sub");
  return { ...payload, sub };
}
