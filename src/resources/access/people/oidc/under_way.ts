/**
 * A sign-in between its two requests. The browser keeps it in a signed cookie, so the server stores nothing for strangers.
 * State, nonce and verifier follow from its id and the master key: a stolen cookie alone does not have them.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Ctx } from "../../../../context.ts";
import { isSecure } from "../../../../http/browser_session.ts";
import { MINUTE_MS } from "../../../../lib/units.ts";

export const LONGEST_SIGN_IN_MS = 10 * MINUTE_MS;

export type SignInUnderWay = { id: string; expiresAt: number; returnTo: string };

const NAME = "verk_oidc";
const COOKIE = new RegExp(`(?:^|; *)${NAME}=([\\w-]{1,4000})\\.([\\w-]{43})(?:;|$)`);

type Secrets = Pick<Ctx, "secrets">;

const hmac = ({ secrets }: Secrets, purpose: string, text: string) =>
  createHmac("sha256", secrets.derive("oidc-sign-in")).update(`${purpose} ${text}`).digest("base64url");

export function newSignIn({ clock }: Pick<Ctx, "clock">, returnTo: string): SignInUnderWay {
  const id = Buffer.from(crypto.getRandomValues(new Uint8Array(24))).toString("base64url");
  return { id, expiresAt: clock.now() + LONGEST_SIGN_IN_MS, returnTo };
}

export const stateOf = (ctx: Secrets, { id }: SignInUnderWay): string => hmac(ctx, "state", id);
export const nonceOf = (ctx: Secrets, { id }: SignInUnderWay): string => hmac(ctx, "nonce", id);
export const verifierOf = (ctx: Secrets, { id }: SignInUnderWay): string => hmac(ctx, "verifier", id);

/** Lax: the browser sends it when the provider's page leads back here, and not with requests of other pages. */
const attributesOf = (ctx: Ctx, request: Request, maxAgeSeconds: number) =>
  `Path=/v1/logins/oidc; Max-Age=${maxAgeSeconds}; SameSite=Lax; HttpOnly${isSecure(ctx, request) ? "; Secure" : ""}`;

export function cookieOf(ctx: Ctx, request: Request, signIn: SignInUnderWay): string {
  const value = Buffer.from(JSON.stringify(signIn)).toString("base64url");
  return `${NAME}=${value}.${hmac(ctx, "cookie", value)}; ${attributesOf(ctx, request, LONGEST_SIGN_IN_MS / 1000)}`;
}

export const clearedCookie = (ctx: Ctx, request: Request): string => `${NAME}=; ${attributesOf(ctx, request, 0)}`;

/** The sign-in that this browser began and to which `state` belongs. Undefined: there is none, or its time is over. */
export function readSignIn(ctx: Ctx, request: Request, state: string): SignInUnderWay | undefined {
  const [, value = "", proof = ""] = COOKIE.exec(request.headers.get("cookie") ?? "") ?? [];
  if (value === "" || !isEqual(proof, hmac(ctx, "cookie", value))) return undefined;
  const signIn = JSON.parse(Buffer.from(value, "base64url").toString()) as SignInUnderWay; // signed, so it is ours
  return isEqual(state, stateOf(ctx, signIn)) && ctx.clock.now() < signIn.expiresAt ? signIn : undefined;
}

function isEqual(text: string, expected: string): boolean {
  const [a, b] = [Buffer.from(text), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}
