import { Elysia } from "elysia";
import type { Ctx, Principal } from "../../context.ts";
import { area } from "../../http/auth.ts";
import { describe } from "../../http/openapi.ts";
import { AppError } from "../../lib/errors.ts";
import * as keys from "../api_keys/service.ts";
import * as workspaces from "../workspaces/service.ts";
import type { WorkspaceRow } from "../workspaces/table.ts";
import { Account, present, UpdateAccount } from "./schema.ts";

/** The caller's own workspace, seen and changed without the admin scope; its name is the operator's. */
export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "self");
  const show = (who: Principal, workspace: WorkspaceRow) =>
    present(workspace, keys.mustGet(ctx, who.workspaceId, who.keyId));
  return new Elysia({ prefix: "/v1/account", tags: ["Account"] })
    .use(authed)
    .get("", ({ principal }) => show(principal, workspaces.mustGet(ctx, principal.workspaceId)), {
      detail: describe("Who this key is: its workspace and itself", { 200: Account }),
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
          { description: "A new name takes a key with the scope admin: settings and commands of the operator use it." },
        ),
      },
    );
};

/**
 * Names are unique in the installation, and settings refer to them. A tenant that could choose one would leave its
 * detection plan, take another's, or learn from `name_taken` which other tenants there are.
 */
function mustMayRename(ctx: Ctx, { workspaceId, scopes }: Principal, name: string) {
  if (scopes.includes("admin") || workspaces.mustGet(ctx, workspaceId).name === name) return;
  throw new AppError(
    "missing_scope",
    "name: renaming a workspace takes a key with the scope admin: ask the operator, or keep a name of your own in metadata",
    { param: "/name" },
  );
}
