/** The token for a hub, whose holder is the workspace or the operator. */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import * as keys from "../../../access/api_keys/service.ts";
import * as secrets from "../../../access/secrets/service.ts";
import { HubError } from "./hub.ts";

const SECRET_NAME = "HUB_TOKEN";

/**
 * The token of a workspace for the hub. It opens private repositories, so no other workspace uses it. The
 * workspace's own secret, else the operator's `hub.token` where `hub.token_for` allows it, else none.
 */
export function hubTokenOf(ctx: Ctx, workspaceId: string): string | undefined {
  const ownToken = ownTokenOf(ctx, workspaceId);
  if (ownToken !== undefined) return ownToken;
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

const NO_TOKEN =
  "No token may write to the hub: store one as the secret HUB_TOKEN of this workspace, or ask the operator to set hub.token and hub.token_for";

const OFFLINE = "offline = true forbids pushing to a hub";

/** The token for a push, or the reason why nothing can be pushed. */
export function tokenFor(ctx: Ctx, workspaceId: string): { token: string } | { refusal: string } {
  if (ctx.config.offline) return { refusal: OFFLINE };
  try {
    const token = hubTokenOf(ctx, workspaceId);
    return token === undefined ? { refusal: NO_TOKEN } : { token };
  } catch (error) {
    if (error instanceof HubError) return { refusal: error.message };
    throw error;
  }
}
