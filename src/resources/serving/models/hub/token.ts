/** The token for downloads of a workspace. It opens private repositories, so no other workspace uses it. */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import * as keys from "../../../access/api_keys/service.ts";
import * as secrets from "../../../access/secrets/service.ts";
import { HubError } from "./hub.ts";

export const SECRET_NAME = "HUB_TOKEN";

/** The workspace's own secret, else the operator's `hub.token` where `hub.token_for` allows it, else none. */
export function hubTokenOf(ctx: Ctx, workspaceId: string): string | undefined {
  const own = ownTokenOf(ctx, workspaceId);
  if (own !== undefined) return own;
  const { token, token_for } = ctx.config.hub;
  if (token === "") return undefined;
  return token_for === "all" || keys.holdsAdminKey(ctx, workspaceId) ? token : undefined;
}

function ownTokenOf(ctx: Ctx, workspaceId: string): string | undefined {
  try {
    return secrets.reveal(ctx, workspaceId, SECRET_NAME, new URL(ctx.config.hub.endpoint).hostname);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    if (error.code === "resource_not_found") return undefined;
    throw new HubError(
      `${error.message}: change scope_host of the secret ${SECRET_NAME} to the host of the hub`,
      false,
    );
  }
}
