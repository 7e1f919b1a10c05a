/** Session directories: <data>/sessions/<id>. sandbox/files/sandbox_dir.ts describes their layout. */
import type { Ctx } from "../../../../context.ts";
import { type ForeignDir, sessionsDir as sessionsIn } from "../../../../sandbox/files/foreign_dir.ts";

export const sessionsDir = (ctx: Pick<Ctx, "config">): ForeignDir => sessionsIn(ctx.config.data_dir);
export const dirOf = (ctx: Pick<Ctx, "config">, id: string): ForeignDir => sessionsDir(ctx).below(id);
