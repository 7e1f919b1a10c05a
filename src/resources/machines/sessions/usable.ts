import type { Ctx, Principal } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { hasWorkspace } from "../../../sandbox/files/sandbox_dir.ts";
import * as sessions from "./service.ts";
import { requireEnabled, requireSupport } from "./support.ts";
import type { SessionRow } from "./table.ts";
import { dirOf } from "./workspace/paths.ts";

/** The ready session of the caller. Throws if it is not ready, or if the server has no sessions. */
export async function usable(ctx: Ctx, { workspaceId }: Principal, id: string): Promise<SessionRow> {
  requireEnabled(ctx);
  sessions.mustGet(ctx, workspaceId, id);
  await requireSupport(ctx);
  const row = sessions.mustBeReady(ctx, workspaceId, id);
  if (hasWorkspace(dirOf(ctx, id))) return row;
  // For example, after the database was restored from a backup without the files.
  throw new AppError("session_not_ready", `The files of session ${id} are missing: stop it and create another`, {
    param: "id",
  });
}
