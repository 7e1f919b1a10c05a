/**
 * Projectors (mmproj): files beside a model that let it read images. The projector of `models/NAME.gguf` is
 * `models/NAME.mmproj`. The file is the truth, as with models: no row knows of it.
 */
import { statSync } from "node:fs";
import { join } from "node:path";
import type { Ctx } from "../../../context.ts";
import type { ModelRow } from "./table.ts";

export type ProjectorFile = { path: string; sizeBytes: number; mtimeMs: number };

/** The path of a model's projector, whether it is there or not. */
export const projectorPath = (modelPath: string): string => modelPath.replace(/(?:\.gguf)?$/i, ".mmproj");

/** Undefined: the model reads no images. */
export function projectorOf(ctx: Ctx, row: ModelRow): ProjectorFile | undefined {
  if (row.path === null) return undefined;
  const path = join(ctx.config.data_dir, projectorPath(row.path));
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats?.isFile() ? { path, sizeBytes: stats.size, mtimeMs: Math.floor(stats.mtimeMs) } : undefined;
}
