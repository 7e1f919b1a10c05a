import { Elysia } from "elysia";
import type { Ctx, Principal } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { AppError } from "../../../lib/errors.ts";
import * as keys from "../api_keys/service.ts";
import * as workspaces from "../workspaces/service.ts";
import type { WorkspaceRow } from "../workspaces/table.ts";
import { Account, present, UpdateAccount } from "./schema.ts";

/** Shows and changes the caller's own workspace without the admin scope. Only the operator renames it. */
export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "self");
  const show = (principal: Principal, workspace: WorkspaceRow) =>
    present(workspace, keys.mustGet(ctx, principal.workspaceId, principal.keyId));
  return new Elysia({ prefix: "/v1/account", tags: ["Account"] })
    .use(authed)
    .get("", ({ principal }) => show(principal, workspaces.mustGet(ctx, principal.workspaceId)), {
      detail: describe("Get the workspace of this key, and the key itself", { 200: Account }),
    })
    .patch(
      "",
      ({ principal, body }) => {
        if (body.name !== undefined) mustMayRename(ctx, principal, body.name);
        return show(principal, workspaces.update(ctx, principal.workspaceId, body));
      },
      {
        ...takes(UpdateAccount),
        detail: describe(
          "Change the workspace's metadata, or rename it",
          { 200: Account },
          { description: "Renaming needs a key with the scope admin, because settings and commands use the name." },
        ),
      },
    );
};

/**
 * Names are unique in the installation, and settings refer to them. A tenant that could choose its name could leave
 * its detection plan, take another's, or learn from `name_taken` which other tenants exist.
 */
function mustMayRename(ctx: Ctx, { workspaceId, scopes }: Principal, name: string) {
  if (scopes.includes("admin") || workspaces.mustGet(ctx, workspaceId).name === name) return;
  throw new AppError(
    "missing_scope",
    "name: renaming a workspace needs a key with the scope admin: ask the operator, or store a name in metadata",
    { param: "/name" },
  );
}
