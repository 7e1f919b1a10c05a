/** Deployments that fine-tuning jobs of OpenAI's format made of their results. */
import { and, eq, inArray, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { ACTIVE } from "../../../lib/deployment_status.ts";
import { stop } from "./service.ts";
import { deployments } from "./table.ts";

/** A client of OpenAI deletes a fine-tuned model by the name of its deployment, and knows no way to stop that. */
export function stopTuned(ctx: Ctx, workspaceId: string, name: string) {
  const row = ctx.db
    .select({ id: deployments.id })
    .from(deployments)
    .where(
      and(
        eq(deployments.workspaceId, workspaceId),
        eq(deployments.name, name),
        inArray(deployments.status, ACTIVE),
        sql`${deployments.metadata} ->> '$.fine_tuning_job' = ${deployments.model}`,
      ),
    )
    .get();
  if (row) stop(ctx, workspaceId, row.id);
}
