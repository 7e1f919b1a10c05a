import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { settingsInForce } from "../../../platform/config/config.ts";
import { present, Setting } from "./schema.ts";

/** Settings are read at the start and never change, so there is nothing to write here. */
export const routes = (ctx: Ctx) =>
  new Elysia({ prefix: "/v1/settings", tags: ["Settings"] })
    .use(area(ctx, "admin").authed)
    .get("", () => ({ object: "list", data: settingsInForce(ctx.config).map(present), has_more: false }), {
      detail: describe(
        "List the settings in force, with their meaning and source",
        { 200: listOf(Setting, "SettingList") },
        {
          description: "Secrets are hidden. A change needs the file, an environment variable or a flag, and a restart.",
        },
      ),
    });
