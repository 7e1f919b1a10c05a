/** The model inside the executable: copied out once for each version, since native code maps it into memory. */
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { and, eq, isNull } from "drizzle-orm";
import tiny from "../../../models/verk-tiny.gguf" with { type: "file" };
import type { Ctx } from "../../context.ts";
import { transition } from "../../events/lifecycle.ts";
import { oncePer } from "../../lib/once_per.ts";
import { durable, write } from "../../platform/db.ts";
import { writeStreamAtomic } from "../../platform/files.ts";
import { settleFile } from "./check.ts";
import { machine } from "./machine.ts";
import * as models from "./service.ts";
import { models as table } from "./table.ts";

export const BUILTIN_NAME = "verk-tiny";
const DIR = join("models", ".builtin");

/** Read as a stream: inside the executable there is nothing to open. */
const hashOf = oncePer(async (_ctx: object) => {
  const hasher = new Bun.CryptoHasher("sha256");
  for await (const chunk of Bun.file(tiny).stream()) hasher.update(chunk);
  return hasher.digest("hex");
});

export async function ensureBuiltin(ctx: Ctx) {
  const sha256 = await hashOf(ctx.supervisor);
  const path = join(DIR, `${BUILTIN_NAME}-${sha256.slice(0, 16)}.gguf`);
  const row = ctx.db
    .select()
    .from(table)
    .where(and(isNull(table.workspaceId), eq(table.name, BUILTIN_NAME)))
    .get();
  const copied = await copyOut(ctx, path, sha256);
  if (!copied && row?.status === "ready" && row.source === "builtin" && row.path === path) return;
  const now = ctx.clock.now();
  const id = write(ctx.db, (tx) => {
    const found = row ?? models.add(tx, { workspaceId: null, name: BUILTIN_NAME, source: "builtin" }, now);
    transition(tx, machine, "recheck", { id: found.id, now }, { path, sha256, source: "builtin" });
    return found.id;
  });
  await durable(ctx.db);
  await settleFile(ctx, id, path, { sha256 });
  await removeOthers(ctx, path);
}

/** Whether it had to be copied. */
async function copyOut(ctx: Ctx, path: string, sha256: string): Promise<boolean> {
  const target = join(ctx.config.data_dir, path);
  const source = Bun.file(tiny);
  const there = await stat(target).catch(() => undefined);
  if (there?.isFile() && there.size === source.size) return false;
  await mkdir(join(ctx.config.data_dir, DIR), { recursive: true, mode: 0o700 });
  await writeStreamAtomic(target, source.stream(), { expectedSha256: sha256 });
  return true;
}

/** Of other versions. A process that still maps one keeps its pages. */
async function removeOthers(ctx: Ctx, path: string) {
  const dir = join(ctx.config.data_dir, DIR);
  for (const name of await readdir(dir))
    if (name !== basename(path) && name.endsWith(".gguf")) await rm(join(dir, name), { force: true });
}
