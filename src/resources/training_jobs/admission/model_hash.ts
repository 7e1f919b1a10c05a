import type { Ctx } from "../../../context.ts";
import { sha256File } from "../../../platform/files.ts";
import * as models from "../../models/service.ts";
import type { ModelRow } from "../../models/table.ts";

/** A file that was just put into the models folder may not have been hashed yet. Null without a file. */
export async function hashOf(ctx: Ctx, model: ModelRow | null | undefined): Promise<string | null> {
  if (!model || (model.sha256 === null && model.status !== "ready")) return null;
  return model.sha256 ?? (await sha256File(models.pathOf(ctx, model)));
}
