/**
 * The cookie of the dashboard. A browser sends it by itself, so a request that changes something must also prove that
 * our own page sent it: by its origin, and by a token that only our page can read.
 */
import { timingSafeEqual } from "node:crypto";
import type { Ctx, SessionPrincipal } from "../context.ts";
import { AppError } from "../lib/errors.ts";
import { isOverTls } from "../lib/net/request_target.ts";
import { isRead } from "./audit.ts";

const NAME = "verk_session";
const COOKIE = new RegExp(`(?:^|; *)${NAME}=([\\w-]{20,100})(?:;|$)`);

/** Undefined: the request has a key of its own, which comes first, or no session. */
export function sessionTokenOf({ headers }: Request): string | undefined {
  if (headers.has("authorization") || headers.has("x-api-key")) return undefined;
  return COOKIE.exec(headers.get("cookie") ?? "")?.[1];
}

/** For a request that signs in: a page of another site must not sign its visitor in as its own user. */
export function requireNoForeignPage(request: Request) {
  const { headers } = request;
  if (!headers.has("sec-fetch-site") && !headers.has("origin")) return; // a program, not a browser
  if (!isSameOrigin(request)) throw new AppError("csrf_failed", "Sign in on a page of this server");
}

/** Reads need no proof: another site gets no answer to read, because it is sent without CORS headers for credentials. */
export function requireOwnPage(request: Request, session: SessionPrincipal) {
  if (isRead(request)) return;
  if (!isSameOrigin(request))
    throw new AppError("csrf_failed", "A browser session may only be used by pages of this server: use an API key");
  const sent = Buffer.from(request.headers.get("x-verk-csrf") ?? "");
  const wanted = Buffer.from(session.csrf);
  if (sent.length !== wanted.length || !timingSafeEqual(sent, wanted))
    throw new AppError("csrf_failed", "The header X-Verk-Csrf is not the csrf_token of this browser session");
}

/** Hosts are compared, not schemes: behind a proxy the page has https and this server sees http. */
function isSameOrigin({ headers }: Request): boolean {
  const site = headers.get("sec-fetch-site");
  if (site !== null) return site === "same-origin";
  const origin = headers.get("origin");
  return origin !== null && URL.canParse(origin) && new URL(origin).host === headers.get("host");
}

/** True if the browser reached this server by https, as far as the server can know. */
export function isSecure({ config }: Ctx, request: Request): boolean {
  if (isOverTls(request) || request.headers.get("x-forwarded-proto") === "https") return true;
  const { public_url: publicUrl } = config.http;
  return publicUrl.startsWith("https:") && new URL(publicUrl).host === request.headers.get("host");
}

/** Readable by the page, without a secret: a page that has no session need not ask for one. */
const HINT = "verk_signed_in";

type Cookies = { token: string; hint: string; maxAgeSeconds: number };

function cookies(ctx: Ctx, request: Request, { token, hint, maxAgeSeconds }: Cookies): string[] {
  const common = `Path=/; Max-Age=${maxAgeSeconds}; SameSite=Strict${isSecure(ctx, request) ? "; Secure" : ""}`;
  return [`${NAME}=${token}; ${common}; HttpOnly`, `${HINT}=${hint}; ${common}`];
}

export const sessionCookies = (ctx: Ctx, request: Request, token: string, longestMs: number) =>
  cookies(ctx, request, { token, hint: "1", maxAgeSeconds: Math.floor(longestMs / 1000) });

export const clearedCookies = (ctx: Ctx, request: Request) =>
  cookies(ctx, request, { token: "", hint: "", maxAgeSeconds: 0 });
