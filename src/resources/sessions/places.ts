/**
 * <data>/sessions/<id>/root/workspace   what the session sees as /workspace; `root` holds nothing else (beneath.ts)
 *                     /incoming         files on their way in: not yet the session's
 *                     /volumes/<n>      read-only volumes outside /workspace
 *                     /volumes/<n>.json what a writable volume held when it was last written back
 */
import { join } from "node:path";
import type { Ctx } from "../../context.ts";

export const sessionsDir = (ctx: Pick<Ctx, "config">) => join(ctx.config.data_dir, "sessions");

export function placesOf(ctx: Pick<Ctx, "config">, id: string) {
  const dir = join(sessionsDir(ctx), id);
  const root = join(dir, "root");
  return {
    dir,
    root,
    workspace: join(root, "workspace"),
    incoming: join(dir, "incoming"),
    volumes: join(dir, "volumes"),
  };
}
