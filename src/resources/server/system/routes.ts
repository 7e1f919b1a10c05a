import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { AppError } from "../../../lib/errors.ts";
import { BUILT_AT, COMMIT, VERSION } from "../../../lib/version.ts";
import { whyNotReady } from "../../../platform/db/trouble.ts";
import { runChecks, SystemChecks } from "./checks.ts";

const Health = z.object({ object: z.literal("health"), status: z.literal("ok") }).meta({ id: "Health" });
const Version = z
  .object({ object: z.literal("version"), version: z.string(), commit: z.string(), built_at: z.string().nullable() })
  .meta({ id: "Version" });

/** `/healthz`: the process answers. `/readyz`: the server can do its work, for a load balancer. */
export const routes = (ctx: Ctx) =>
  new Elysia({ tags: ["System"] })
    .get("/healthz", () => ({ object: "health", status: "ok" }), {
      detail: describe("Check that the process answers", { 200: Health }, { public: true }),
    })
    .get(
      "/readyz",
      () => {
        const reason = whyNotReady(ctx.db);
        if (reason !== undefined) throw new AppError("storage_unavailable", reason, { retryAfterSeconds: 5 });
        return { object: "health", status: "ok" };
      },
      { detail: describe("Check that the server can do its work", { 200: Health }, { public: true }) },
    )
    .get("/version", () => ({ object: "version", version: VERSION, commit: COMMIT, built_at: BUILT_AT }), {
      detail: describe("Get the version of this server", { 200: Version }, { public: true }),
    });

export const checkRoutes = (ctx: Ctx) =>
  new Elysia({ tags: ["System"] }).use(area(ctx, "admin").authed).get("/v1/system/checks", () => runChecks(ctx), {
    detail: describe("Check this machine and the data directory, as `verk doctor` does", { 200: SystemChecks }),
  });
