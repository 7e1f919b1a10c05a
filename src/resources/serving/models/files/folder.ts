/**
 * The models folder. A file in <data>/models, or in a folder there, is a model named by its path without `.gguf`.
 * Files are the truth and rows follow: a new or changed file is inspected, and a removed one is `missing`.
 */
import { mkdir, readdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { and, eq, isNull } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { incompleteFolder, isHuggingFaceFolder, isSafetensors } from "../../../../lib/gguf/other_formats.ts";
import { splitOf, splitsIn } from "../../../../lib/gguf/parts.ts";
import { DAY_MS } from "../../../../lib/units.ts";
import { durable, write } from "../../../../platform/db/db.ts";
import { cleanTemp } from "../../../../platform/files.ts";
import { BUILTIN_NAME, ensureBuiltin } from "../builtin.ts";
import { machine } from "../machine.ts";
import { refuseAbandoned, removeStrayResults } from "../results.ts";
import * as models from "../service.ts";
import { type ModelRow, models as table } from "../table.ts";
import { removeStray } from "../upload/files.ts";
import { settleFile } from "./check.ts";
import { type Checkpoint, checkpointAt, isCheckpoint, partsAt } from "./checkpoint.ts";
import { removeAbandoned } from "./convert.ts";
import { registerConverted } from "./converted.ts";
import { noticeLost, removeUnused } from "./sweep.ts";

export const FOLDER = "models";
export const HUB = "hub"; // downloads lie below it and have rows of their own
const SETTLED_MS = 2_000; // a file that changed a moment ago may not be complete
const PAUSE_MS = 500;
const ABANDONED_MS = DAY_MS; // temporary files of an import that was killed

type ModelFile = {
  name: string;
  path: string;
  size: number;
  mtimeMs: number;
  /** A Hugging Face folder or a split file: a GGUF file is written beside it. */
  checkpoint?: Checkpoint;
};

/** The tick of the loop. It repeats while files are being copied. */
export async function scan(ctx: Ctx, signal?: AbortSignal) {
  await ensureBuiltin(ctx);
  await noticeLost(ctx);
  await removeUnused(ctx);
  await removeStray(ctx);
  await removeStrayResults(ctx);
  refuseAbandoned(ctx);
  await mkdir(join(ctx.config.data_dir, FOLDER), { recursive: true, mode: 0o700 });
  await removeAbandoned(ctx.config.data_dir);
  await cleanTemp(join(ctx.config.data_dir, FOLDER), ABANDONED_MS, ctx.clock.now());
  while (!signal?.aborted && (await scanOnce(ctx))) await ctx.clock.sleep(PAUSE_MS, signal);
}

/** True: a file is still being copied. */
async function scanOnce(ctx: Ctx): Promise<boolean> {
  const files = await filesOf(ctx);
  const rows = new Map(folderRows(ctx).map((row) => [row.name, row]));
  const { seen } = ctx.state.models;
  let moving = false;
  for (const file of files) {
    const row = rows.get(file.name);
    rows.delete(file.name);
    const mark = `${file.size}:${file.mtimeMs}`;
    const quiet = ctx.clock.now() - file.mtimeMs >= SETTLED_MS || seen.get(file.path) === mark;
    seen.set(file.path, mark);
    if (row && isCurrent(row, file)) continue;
    if (!quiet) moving = true;
    else
      await (file.checkpoint
        ? registerConverted(ctx, { ...file, checkpoint: file.checkpoint }, row)
        : register(ctx, file, row)
      ).catch((error) => {
        ctx.log.error("a file in the models folder could not be registered", { file: file.path, error }); // the others go on
      });
  }
  for (const row of rows.values()) {
    if (row.status === "missing") continue;
    write(ctx.db, (tx) => transition(tx, machine, "lose", { id: row.id, now: ctx.clock.now() }, {}));
  }
  return moving;
}

/** The file was inspected, with either result, and has not changed since. */
const isCurrent = (row: ModelRow, file: ModelFile) =>
  (row.status === "ready" || row.status === "failed") &&
  row.sizeBytes === file.size &&
  row.fileMtimeMs === Math.floor(file.mtimeMs);

export async function register(ctx: Ctx, file: { name: string; path: string }, existing?: ModelRow): Promise<ModelRow> {
  const now = ctx.clock.now();
  const row = existing ?? folderRows(ctx).find((each) => each.name === file.name);
  const id = write(ctx.db, (tx) => {
    if (!row) return models.add(tx, { workspaceId: null, name: file.name, source: "folder", path: file.path }, now).id;
    transition(tx, machine, "recheck", { id: row.id, now }, { path: file.path, sha256: null, error: null });
    return row.id;
  });
  await durable(ctx.db);
  await settleFile(ctx, id, file.path);
  ctx.wake("models.hash");
  return ctx.db.select().from(table).where(eq(table.id, id)).get() as ModelRow; // rows are never removed
}

const folderRows = (ctx: Ctx): ModelRow[] =>
  ctx.db
    .select()
    .from(table)
    .where(and(isNull(table.workspaceId), eq(table.source, "folder")))
    .all();

async function filesOf(ctx: Ctx): Promise<ModelFile[]> {
  const root = join(ctx.config.data_dir, FOLDER);
  const files: ModelFile[] = [];
  const entries = await readdir(root);
  for (const entry of entries) {
    if (entry.startsWith(".") || entry === HUB) continue;
    const file = await fileAt(root, entry);
    if (file === "folder") {
      const names = await readdir(join(root, entry)).catch(() => []);
      const isConverted = entries.includes(`${entry}.gguf`);
      const checkpoint = isCheckpoint(names) && !isConverted ? await checkpointAt(join(root, entry)) : undefined;
      if (checkpoint) files.push(convertible(entry, checkpoint));
      else if (isHuggingFaceFolder(names) && !isCheckpoint(names))
        reportFolder(ctx, `${FOLDER}/${entry}`, incompleteFolder(entry, names));
      for (const inner of names) {
        const below = inner.startsWith(".") ? undefined : await fileAt(root, `${entry}/${inner}`);
        if (below !== undefined && below !== "folder") files.push(below);
      }
      files.push(...(await splitFiles(root, `${entry}/`, names)));
    } else if (file) files.push(file);
    else if (isSafetensors(entry))
      reportFolder(ctx, `${FOLDER}/${entry}`, "put the whole model folder here, with config.json and the tokenizer");
  }
  files.push(...(await splitFiles(root, "", entries)));
  return files.filter(
    ({ name }) => name !== BUILTIN_NAME && name.length <= 200 && name.isWellFormed() && !/\p{Cc}/u.test(name),
  );
}

const convertible = (name: string, checkpoint: Checkpoint): ModelFile => {
  const { bytes: size, mtimeMs } = checkpoint;
  return { name, path: join(FOLDER, name), size, mtimeMs, checkpoint };
};

/** Split models whose parts are not joined yet. */
async function splitFiles(root: string, prefix: string, names: readonly string[]): Promise<ModelFile[]> {
  const waiting = splitsIn(names.filter((name) => !name.startsWith("."))).filter(
    ({ stem }) => !names.includes(`${stem}.gguf`),
  );
  return Promise.all(
    waiting.map(async (split) => convertible(`${prefix}${split.stem}`, await partsAt(join(root, prefix), split))),
  );
}

/** Logs once what the scan ignores, so that a folder of another format does not vanish without a word. */
function reportFolder(ctx: Ctx, path: string, fix: string) {
  const { seen } = ctx.state.models;
  if (seen.has(path)) return;
  seen.set(path, "ignored");
  ctx.log.warn("the models folder has a model that cannot be used: it is ignored", { path, fix });
}

/** Follows links. */
async function fileAt(root: string, relative: string): Promise<ModelFile | "folder" | undefined> {
  const stats = await stat(join(root, relative)).catch(() => undefined);
  if (stats?.isDirectory()) return "folder";
  if (!stats?.isFile() || !/\.gguf$/i.test(relative) || splitOf(basename(relative))) return undefined;
  const name = relative.replace(/\.gguf$/i, "");
  return { name, path: join(FOLDER, relative), size: stats.size, mtimeMs: stats.mtimeMs };
}
