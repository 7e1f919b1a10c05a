import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { ChangeSetting, Setting } from "./schema.ts";
import * as settings from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "admin");
  return new Elysia({ prefix: "/v1/settings", tags: ["Settings"] })
    .use(authed)
    .get("", () => ({ object: "list", data: settings.list(ctx), has_more: false }), {
      detail: describe(
        "List the settings in force, with their meaning and source",
        { 200: listOf(Setting, "SettingList") },
        {
          description:
            "Secrets are hidden. A setting with needs_restart changes by the file, an environment variable or a flag, and a restart.",
        },
      ),
    })
    .patch("/:name", ({ principal, params, body }) => settings.change(ctx, principal, params.name, body.value), {
      ...takes(ChangeSetting),
      detail: describe(
        "Change a setting while the server runs",
        { 200: Setting },
        {
          description:
            "For settings without needs_restart that no file, variable or flag sets. The change counts at once, and after a restart too. The audit log names the setting and the key.",
        },
      ),
    });
};
