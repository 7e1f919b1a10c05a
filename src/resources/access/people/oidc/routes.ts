import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../../context.ts";
import { audit } from "../../../../http/audit.ts";
import { asks } from "../../../../http/query.ts";
import { AppError } from "../../../../lib/errors.ts";
import { OIDC_FAILURE_PREFIX, type OidcFailure } from "../../../../lib/net/oidc_failures.ts";
import { durable } from "../../../../platform/db/db.ts";
import { OidcError } from "./failure.ts";
import * as oidc from "./service.ts";
import { clearedCookie, cookieOf } from "./under_way.ts";

const text = z.union([z.string(), z.array(z.string())]).optional();
const StartQuery = z.looseObject({ return_to: text });
const CallbackQuery = z.looseObject({ state: text, code: text, error: text, iss: text });

/** Pages of the sign-in through a provider: a browser comes here by a link, and goes on by a redirect. */
export const routes = (ctx: Ctx) =>
  new Elysia({ prefix: "/v1/logins/oidc" })
    .get(
      "",
      async ({ request, query: { return_to: returnTo } }) => {
        oidc.requireConfigured(ctx);
        return oidc.start(ctx, request, localPath(typeof returnTo === "string" ? returnTo : undefined)).then(
          ({ url, signIn }) => redirect(url, [cookieOf(ctx, request, signIn)]),
          (error: unknown) => redirect(failedAddress(ctx, error), []),
        );
      },
      asks(StartQuery),
    )
    .get(
      "/callback",
      async ({ request, query }) => {
        oidc.requireConfigured(ctx);
        const cleared = clearedCookie(ctx, request);
        return oidc.finish(ctx, request, query).then(
          async ({ cookies, returnTo }) => {
            await record(ctx, request, 303);
            return redirect(returnTo, [...cookies, cleared]);
          },
          async (error: unknown) => {
            const address = failedAddress(ctx, error);
            await record(ctx, request, 403);
            return redirect(address, [cleared]);
          },
        );
      },
      asks(CallbackQuery),
    );

/** A GET neither waits for the disk nor is recorded by itself, and this one signs in. */
async function record(ctx: Ctx, request: Request, status: number) {
  audit(ctx, request, status);
  await durable(ctx.db);
}

/** The sign-in page with the reason behind the #. Anything but a refused sign-in is thrown on. */
function failedAddress(ctx: Ctx, error: unknown): string {
  const failure = failureOf(error);
  ctx.log.warn("a sign-in through the provider failed", { failure, reason: (error as Error).message });
  return `/${OIDC_FAILURE_PREFIX}${failure}`;
}

function failureOf(error: unknown): OidcFailure {
  if (error instanceof OidcError) return error.failure;
  if (error instanceof AppError && error.code === "rate_limited") return "too_many";
  throw error;
}

function redirect(location: string, cookies: readonly string[]): Response {
  const headers = new Headers({ location, "cache-control": "no-store", "referrer-policy": "no-referrer" });
  for (const cookie of cookies) headers.append("set-cookie", cookie);
  return new Response(null, { status: 303, headers });
}

const BASE = "http://this.invalid";
const LONGEST = 1_000;

/** A path of this server; `/` for everything else. A browser reads `//host` and `/\host` as another server. */
function localPath(text: string | undefined): string {
  if (text === undefined || text.length > LONGEST || !/^\/[\x21-\x5b\x5d-\x7e]*$/.test(text)) return "/";
  if (!URL.canParse(text, BASE)) return "/";
  const { origin, pathname, search, hash } = new URL(text, BASE);
  return origin === BASE && !pathname.startsWith("//") ? pathname + search + hash : "/";
}
