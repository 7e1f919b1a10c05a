import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../context.ts";
import { describe } from "../../http/openapi.ts";
import { AppError } from "../../lib/errors.ts";
import { BUILT_AT, COMMIT, VERSION } from "../../lib/version.ts";
import { isBroken } from "../../platform/db/db.ts";

const Health = z.object({ object: z.literal("health"), status: z.literal("ok") }).meta({ id: "Health" });
const Version = z
  .object({ object: z.literal("version"), version: z.string(), commit: z.string(), built_at: z.string().nullable() })
  .meta({ id: "Version" });

/** `/healthz`: the process answers. `/readyz`: it can do its work; a load balancer asks this one. */
export const routes = (ctx: Ctx) =>
  new Elysia({ tags: ["System"] })
    .get("/healthz", () => ({ object: "health", status: "ok" }), {
      detail: describe("Whether the process answers", { 200: Health }, { public: true }),
    })
    .get(
      "/readyz",
      () => {
        ctx.db.$client.query("SELECT 1").get();
        if (isBroken(ctx.db))
          throw new AppError("storage_unavailable", "The last write could not be flushed: see the log");
        return { object: "health", status: "ok" };
      },
      { detail: describe("Whether the server can do its work", { 200: Health }, { public: true }) },
    )
    .get("/version", () => ({ object: "version", version: VERSION, commit: COMMIT, built_at: BUILT_AT }), {
      detail: describe("Version of this server", { 200: Version }, { public: true }),
    });
