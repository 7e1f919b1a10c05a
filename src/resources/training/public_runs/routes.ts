import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { addressOf } from "../../../http/client.ts";
import { createLimiter, type RateLimiter } from "../../../http/limits/rate_limit.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { clientNetwork } from "../../../lib/net/client_address.ts";
import { matchesTag } from "../../../lib/range.ts";
import { PublicRun, PublicRunList, PublicRunsQuery } from "./schema.ts";
import * as runs from "./service.ts";

const OPEN = { public: true } as const;
const LIKES = { perSecond: 0.5, burst: 10 };
const ALL_LIKES = { perSecond: 100, burst: 200 }; // each like is a commit, so many clients together must not overload the disk

/** Needs no API key. An unpublished run disappears here at once, and from caches after MAX_AGE_SECONDS. */
export const routes = (ctx: Ctx) => {
  const { rate_limit_per_second: perSecond, rate_limit_burst: burst } = ctx.config.public_runs;
  const reads = createLimiter(ctx.clock, { perSecond, burst }, `More than ${perSecond} requests a second`);
  const likes = createLimiter(ctx.clock, LIKES, "Too many likes from this address");
  const allLikes = createLimiter(ctx.clock, ALL_LIKES, "Too many likes at the moment");
  const clientOf = (request: Request, limiter: RateLimiter): string => {
    const client = clientNetwork(addressOf(ctx, request) ?? "");
    limiter.spend(client);
    return client;
  };
  return new Elysia({ prefix: "/v1/public/runs", tags: ["Public runs"] })
    .get(
      "",
      ({ request, query }) => {
        clientOf(request, reads);
        return cacheable(request, runs.list(ctx, query));
      },
      {
        ...asks(PublicRunsQuery),
        detail: describe("List published runs, newest first", { 200: PublicRunList }, OPEN),
      },
    )
    .get(
      "/:id",
      ({ request, params }) => {
        clientOf(request, reads);
        return cacheable(request, runs.mustGet(ctx, params.id));
      },
      { detail: describe("Get a published run", { 200: PublicRun }, OPEN) },
    )
    .post(
      "/:id/like",
      ({ request, params }) => {
        const client = clientOf(request, likes);
        allLikes.spend("");
        return runs.like(ctx, params.id, client);
      },
      {
        detail: describe(
          "Like a published run",
          { 200: PublicRun },
          { ...OPEN, description: "Counts once for each client address." },
        ),
      },
    );
};

const MAX_AGE_SECONDS = 15;

function cacheable(request: Request, answer: object): Response {
  const body = JSON.stringify(answer);
  const etag = `"${new Bun.CryptoHasher("sha256").update(body).digest("base64url").slice(0, 22)}"`;
  const headers = { etag, "cache-control": `public, max-age=${MAX_AGE_SECONDS}, must-revalidate` };
  if (matchesTag(request.headers.get("if-none-match"), etag)) return new Response(null, { status: 304, headers });
  return new Response(body, { headers: { ...headers, "content-type": "application/json" } });
}
