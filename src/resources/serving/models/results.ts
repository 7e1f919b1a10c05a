/**
 * Models that training jobs made: models/.results/<model>.gguf below the data directory. The file is a hard link to the
 * job's own file, so it outlives the job. It exists before its row; a file without a row is removed.
 */
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { and, desc, eq, inArray, isNull, ne, or, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { newId } from "../../../lib/ids.ts";
import { HOUR_MS } from "../../../lib/units.ts";
import { durable, type Tx, write } from "../../../platform/db/db.ts";
import { asStorageError, syncDir } from "../../../platform/files.ts";
import type { ForeignDir } from "../../../sandbox/files/foreign_dir.ts";
import { linkFile } from "../../../sandbox/files/trees.ts";
import { spaceMeter } from "../../data/storage_usage/service.ts";
import { inspect } from "./files/inspect.ts";
import * as models from "./service.ts";
import { type ModelRow, models as table } from "./table.ts";

/** Also of quantized copies. */
const DIR = join("models", ".results");
const SUFFIX = ".gguf";
export const pathOfResult = (id: string) => join(DIR, `${id}${SUFFIX}`);
const STRAY_MS = HOUR_MS; // the row of a younger file may not be written yet
/** Variants that the job itself makes; all others are exports. */
const OWN_RESULTS = ["adapter", "model"];

export type Result = {
  workspaceId: string;
  jobId: string;
  checkpointId: string;
  step: number;
  /** `adapter` or `model`: the job's own result. Else an export, such as `gguf Q8_0`. Unique for each checkpoint. */
  variant: string;
  /** If the name is taken, a number is added: the row has the final name. */
  name: string;
  baseModelId: string | null;
  /** Complete and flushed. It stays where it is and may be removed later. */
  file: { dir: ForeignDir; name: string };
  sha256?: string;
};

export type PlacedResult = models.Inspected & { id: string; path: string };

/** Makes the job's file a model of the workspace that can be served. Later calls find the model. */
export async function registerResult(ctx: Ctx, result: Result): Promise<ModelRow> {
  const previous = existing(ctx.db, result);
  if (previous?.status === "ready" && models.fileOf(ctx, previous) === "same") return previous;
  const linked = await placeResult(ctx, result);
  const row = write(ctx.db, (tx) => addResult(ctx, tx, result, linked));
  await durable(ctx.db);
  return row;
}

/** Links the file and inspects it. The caller must call `addResult` within an hour. */
export async function placeResult(ctx: Ctx, { workspaceId, file, sha256 }: Result): Promise<PlacedResult> {
  const id = newId("mdl", ctx.clock.now());
  const path = pathOfResult(id);
  const full = join(ctx.config.data_dir, path);
  await linkInto(ctx, file, full);
  const inspection = await inspect(ctx, full, { workspaceId, hash: sha256 === undefined });
  if (!inspection.ok) {
    await rm(full, { force: true });
    throw new Error(`The result of the training job is not a usable model: ${inspection.error}`);
  }
  const { shape, sizeBytes } = inspection;
  const fileMtimeMs = Math.floor((await stat(full)).mtimeMs);
  return { id, path, shape, sizeBytes, sha256: sha256 ?? inspection.sha256, fileMtimeMs };
}

async function linkInto(ctx: Ctx, file: Result["file"], to: string) {
  const dir = join(ctx.config.data_dir, DIR);
  try {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    using meter = spaceMeter(ctx);
    await linkFile(file.dir, file.name, to, meter);
    await syncDir(dir);
  } catch (error) {
    await rm(to, { force: true });
    throw asStorageError(to, "write", error);
  }
}

/** Called in the commit that gives the job its result. If another call was faster, its row counts and this file is removed. */
export function addResult(ctx: Ctx, tx: Tx, result: Result, linked: PlacedResult): ModelRow {
  const now = ctx.clock.now();
  const { id, path, ...facts } = linked;
  const row = existing(tx, result);
  if (row?.status === "ready" && models.fileOf(ctx, row) === "same") return row;
  if (row) {
    models.recheck(tx, row.id, now);
    return models.accept(tx, row.id, { ...facts, path }, now) ?? row;
  }
  const { workspaceId, jobId, checkpointId, step, variant, baseModelId } = result;
  const base = baseModelId === null ? undefined : models.find(ctx, workspaceId, baseModelId);
  const added = models.add(
    tx,
    {
      id,
      workspaceId,
      name: freeName(tx, workspaceId, result.name),
      source: "training_job",
      path,
      jobId,
      checkpointId,
      checkpointStep: step,
      variant,
      baseModelId,
      baseModel: base?.name ?? null,
    },
    now,
  );
  return models.accept(tx, added.id, { ...facts, path }, now) ?? added;
}

const here = ne(table.status, "deleted");

const existing = (tx: Pick<Tx, "select">, { checkpointId, variant }: Pick<Result, "checkpointId" | "variant">) =>
  tx
    .select()
    .from(table)
    .where(and(eq(table.checkpointId, checkpointId), eq(table.variant, variant), here))
    .get();

/** `name`, or `name-2` and so on. A name of the installation is not free: the new model would hide it. */
export function freeName(tx: Tx, workspaceId: string, preferred: string): string {
  const taken = (name: string) =>
    tx
      .select({ id: table.id })
      .from(table)
      .where(and(eq(table.name, name), or(isNull(table.workspaceId), eq(table.workspaceId, workspaceId))))
      .get();
  let name = preferred;
  for (let number = 2; taken(name); number++) name = `${preferred}-${number}`;
  return name;
}

/** The model of a training job: its own result before an export, and of its last checkpoint. */
export function byJob(ctx: Ctx, workspaceId: string, jobId: string): ModelRow | undefined {
  return ctx.db
    .select()
    .from(table)
    .where(and(eq(table.workspaceId, workspaceId), eq(table.jobId, jobId), here))
    .orderBy(desc(sql`${inArray(table.variant, OWN_RESULTS)}`), desc(table.checkpointStep), desc(table.id))
    .limit(1)
    .get();
}

/** The job's own result at a checkpoint, if the checkpoint was made a model. */
export const byCheckpoint = (ctx: Ctx, workspaceId: string, checkpointId: string): ModelRow | undefined =>
  ctx.db
    .select()
    .from(table)
    .where(
      and(
        eq(table.workspaceId, workspaceId),
        eq(table.checkpointId, checkpointId),
        inArray(table.variant, OWN_RESULTS),
        here,
      ),
    )
    .get();

/** The export of a checkpoint, such as `merged F16`, also while it is being made. */
export function byExport(ctx: Ctx, workspaceId: string, checkpointId: string, variant: string): ModelRow | undefined {
  const row = existing(ctx.db, { checkpointId, variant });
  return row?.workspaceId === workspaceId ? row : undefined;
}

/** Adds the row of a result that is being made. `addResult` makes it ready, `refuseResult` fails it. */
export function announceResult(ctx: Ctx, tx: Tx, result: Omit<Result, "file" | "sha256">): ModelRow {
  const now = ctx.clock.now();
  const row = existing(tx, result);
  if (row) return models.recheck(tx, row.id, now) ?? row;
  const { workspaceId, jobId, checkpointId, step: checkpointStep, variant, baseModelId } = result;
  const name = freeName(tx, workspaceId, result.name);
  const of = { jobId, checkpointId, checkpointStep, variant, baseModelId };
  return models.add(tx, { workspaceId, name, source: "training_job", ...of }, now);
}

/** The result cannot be made. A deployment that waits for it fails with this error. */
export function refuseResult(ctx: Ctx, tx: Tx, of: Pick<Result, "checkpointId" | "variant">, error: string) {
  const row = existing(tx, of);
  if (row?.status === "pending") models.refuse(tx, row.id, error, ctx.clock.now());
}

/** Results that nothing makes any more, because their job was deleted. */
export function refuseAbandoned(ctx: Ctx) {
  const abandoned = and(
    eq(table.status, "pending"),
    eq(table.source, "training_job"),
    sql`NOT EXISTS (SELECT 1 FROM training_jobs WHERE training_jobs.id = ${table.jobId})`,
  );
  for (const { id } of ctx.db.select().from(table).where(abandoned).all())
    write(ctx.db, (tx) => models.refuse(tx, id, "The training job was deleted", ctx.clock.now()));
}

/** Removes files that a crash left without a row. */
export async function removeStrayResults(ctx: Ctx) {
  const dir = join(ctx.config.data_dir, DIR);
  for (const name of await readdir(dir).catch(() => [])) {
    const named = ctx.db
      .select({ id: table.id })
      .from(table)
      .where(and(eq(table.path, join(DIR, name)), here))
      .get();
    const stats = named ? undefined : await stat(join(dir, name)).catch(() => undefined);
    if (stats && ctx.clock.now() - stats.ctimeMs > STRAY_MS) await rm(join(dir, name), { force: true });
  }
}
