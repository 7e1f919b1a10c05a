/** The model inside the executable. It is copied out once for each version, because native code maps the file. */
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { and, eq, isNull } from "drizzle-orm";
import manifest from "../../../../models/manifest.json";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { durable, write } from "../../../platform/db/db.ts";
import type { ModelShape } from "../../../workers/protocol.ts";
import { settleFile } from "./files/check.ts";
import { placeBuiltin } from "./files/inspect.ts";
import { machine } from "./machine.ts";
import * as models from "./service.ts";
import { type ModelRow, models as table } from "./table.ts";

export const BUILTIN_NAME = "verk-tiny";
const DIR = join("models", ".builtin");

const { sha256, bytes, shape: described } = manifest.models.find(({ name }) => name === BUILTIN_NAME)!;
const path = join(DIR, `${BUILTIN_NAME}-${sha256.slice(0, 16)}.gguf`);

const current = (ctx: Ctx): ModelRow | undefined =>
  ctx.db
    .select()
    .from(table)
    .where(and(isNull(table.workspaceId), eq(table.name, BUILTIN_NAME)))
    .get();

/**
 * Adds the row before the first request, so that the model can be deployed and trained at once. The first scan copies
 * the file; who uses the model waits for it.
 */
export function registerBuiltin(ctx: Ctx) {
  if (current(ctx)) return;
  const shape = described as ModelShape; // a test compares it with the file
  const { architecture, parameters, quantization, context_length: contextLength } = shape;
  const facts = { shape, architecture, parameters, quantization, contextLength };
  const model = { workspaceId: null, name: BUILTIN_NAME, source: "builtin" as const, path, sha256, sizeBytes: bytes };
  write(ctx.db, (tx) => models.add(tx, { ...model, ...facts }, ctx.clock.now()));
}

export async function ensureBuiltin(ctx: Ctx) {
  const row = current(ctx);
  const copied = await copyOut(ctx, join(ctx.config.data_dir, path));
  if (!copied && row?.status === "ready" && row.source === "builtin" && row.path === path) return;
  const now = ctx.clock.now();
  const id = write(ctx.db, (tx) => {
    const model = row ?? models.add(tx, { workspaceId: null, name: BUILTIN_NAME, source: "builtin" }, now);
    transition(tx, machine, "recheck", { id: model.id, now }, { path, sha256, source: "builtin" });
    return model.id;
  });
  await durable(ctx.db);
  await settleFile(ctx, id, path, { sha256 });
  ctx.wake("deployments.reconcile"); // one may wait for the file
  await removeOthers(ctx, path);
}

/** True: it was copied now. */
async function copyOut(ctx: Ctx, target: string): Promise<boolean> {
  const stats = await stat(target).catch(() => undefined);
  if (stats?.isFile() && stats.size === bytes) return false;
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  await placeBuiltin(ctx, target, sha256);
  return true;
}

/** Removes the files of other versions. A process that still maps one keeps its pages. */
async function removeOthers(ctx: Ctx, path: string) {
  const dir = join(ctx.config.data_dir, DIR);
  for (const name of await readdir(dir))
    if (name !== basename(path) && name.endsWith(".gguf")) await rm(join(dir, name), { force: true });
}
