import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { write } from "../../platform/db/db.ts";
import { requireReachable } from "../watching/webhooks/guard.ts";
import * as webhooks from "../watching/webhooks/service.ts";
import { accountOf, availableCredits, change, planFor } from "./accounts.ts";
import { namedModels } from "./policy.ts";
import type { ChangeConfig, Config } from "./schema.ts";

export function present(ctx: Ctx, workspaceId: string): Config {
  const account = accountOf(ctx, workspaceId);
  const { plan, customerId } = planFor(ctx, workspaceId);
  return {
    customerId,
    defaultModels: account.defaultModels,
    defaultThreshold: account.defaultThreshold,
    prior: account.prior,
    webhookUrl: webhooks.servicePoint(ctx, workspaceId)?.url ?? null,
    cacheEnabled: account.cacheEnabled,
    plan,
    credits: availableCredits(ctx, workspaceId),
  };
}

/** Only the answer to a new address holds its secret. */
export async function update(ctx: Ctx, workspaceId: string, input: ChangeConfig): Promise<Config> {
  const { webhookUrl, defaultModels, defaultThreshold, prior, cacheEnabled } = input;
  const changes = {
    ...(defaultModels === undefined ? {} : { defaultModels: namedModels(defaultModels) }),
    ...(defaultThreshold === undefined ? {} : { defaultThreshold }),
    ...(prior === undefined ? {} : { prior }),
    ...(cacheEnabled === undefined ? {} : { cacheEnabled }),
  };
  if (typeof webhookUrl === "string") await requireReachable(ctx, webhookUrl, { field: "webhookUrl" });
  return write(ctx.db, (tx) => {
    change(ctx, tx, workspaceId, changes);
    const secret = webhookUrl === undefined ? undefined : webhooks.pointService(ctx, tx, workspaceId, webhookUrl);
    const config = present(ctx, workspaceId);
    return secret === undefined ? config : { ...config, webhookSecret: secret };
  });
}

/** A scheme with one signature cannot carry two: notifications are signed with the new secret from now on. */
export const rotateSecret = (ctx: Ctx, workspaceId: string): Config =>
  write(ctx.db, (tx) => {
    const webhookSecret = webhooks.rotateService(ctx, tx, workspaceId);
    if (webhookSecret === undefined)
      throw new AppError("unsupported_state", "There is no webhookUrl. Set one first: PUT /v1/config");
    return { ...present(ctx, workspaceId), webhookSecret };
  });
