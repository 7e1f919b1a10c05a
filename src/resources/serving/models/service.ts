/** The registry of models: built in, in the models folder, from the hub, uploaded, or made by a training job. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { and, desc, eq, isNull, ne, or, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { transition } from "../../../events/lifecycle.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { estimateMemory, type KvType, type MemoryEstimate } from "../../../lib/gguf/memory.ts";
import { isId, newId } from "../../../lib/ids.ts";
import { nearest } from "../../../lib/text/nearest.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { limitWaiting } from "../../../platform/db/waiting_limit.ts";
import type { ModelShape } from "../../../workers/protocol.ts";
import { mustBeOpen } from "../../data/storage_usage/service.ts";
import { fileMatches, parseHubName } from "./hub/name.ts";
import { INSTALLATION, machine } from "./machine.ts";
import { present } from "./schema.ts";
import { type ModelRow, type ModelSource, models } from "./table.ts";

const MOST_SUGGESTIONS = 1_000;

export const here = ne(models.status, "deleted");
const visible = (workspaceId: string) => and(or(isNull(models.workspaceId), eq(models.workspaceId, workspaceId)), here);

const byId = preparedRow(
  models,
  and(
    eq(models.id, sql.placeholder("id")),
    or(isNull(models.workspaceId), eq(models.workspaceId, sql.placeholder("workspaceId"))),
    here,
  ),
);
const insert = preparedInsert(models);

/** For a signed address, which names no workspace. */
export const byIdOfAny = (ctx: Ctx, id: string): ModelRow | undefined =>
  ctx.db
    .select()
    .from(models)
    .where(and(eq(models.id, id), here))
    .get();

/** Two pages in one, of the workspace and of the installation, so that no other workspace's rows are read. */
export function list(ctx: Ctx, workspaceId: string, query: PageQuery) {
  const pages = [eq(models.workspaceId, workspaceId), isNull(models.workspaceId)].map((owner) =>
    page(ctx.db, models, and(owner, here), query, (row) => row),
  );
  const rows = pages.flatMap(({ data }) => data).sort((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1));
  const hasMore = rows.length > query.limit || pages.some(({ has_more }) => has_more);
  return { object: "list" as const, data: rows.slice(0, query.limit).map(present), has_more: hasMore };
}

/** By id or by name: first a model of the workspace, then of the installation, then a hub name of a ready model. */
export function find(ctx: Ctx, workspaceId: string, name: string): ModelRow | undefined {
  if (isId(name, "mdl")) return byId(ctx.db, { id: name, workspaceId });
  const [named] = ctx.db
    .select()
    .from(models)
    .where(and(visible(workspaceId), eq(models.name, name)))
    .orderBy(desc(sql`${models.workspaceId} IS NOT NULL`))
    .all();
  return named ?? findInFolder(ctx, name) ?? findOfHub(ctx, workspaceId, name);
}

/** A path below the models folder: `models/qwen/q8.gguf`, `qwen/q8.gguf`, or a folder with a single model. */
function findInFolder(ctx: Ctx, path: string): ModelRow | undefined {
  const name = path.replace(/^(\.\/)?(models\/)?/, "").replace(/(\.gguf|\/)$/i, "");
  if (name === "") return undefined;
  const rows = ctx.db
    .select()
    .from(models)
    .where(and(isNull(models.workspaceId), eq(models.source, "folder"), ne(models.status, "missing"), here))
    .all();
  const exact = rows.find((row) => row.name === name);
  const below = rows.filter((row) => row.name.startsWith(`${name}/`));
  return exact ?? (below.length === 1 ? below[0] : undefined);
}

/** `owner/repo` finds the only downloaded file of it. `owner/repo:Q8_0` finds a file that was pulled by another name. */
function findOfHub(ctx: Ctx, workspaceId: string, name: string): ModelRow | undefined {
  const hubName = parseHubName(name);
  if (!hubName) return undefined;
  const rows = ctx.db
    .select()
    .from(models)
    .where(and(eq(models.workspaceId, workspaceId), eq(models.source, "hub"), eq(models.status, "ready")))
    .all()
    .filter(
      (row) => parseHubName(row.hubName ?? "")?.repo === hubName.repo && fileMatches(row.hubFile ?? "", hubName.file),
    );
  return rows.length === 1 ? rows[0] : undefined;
}

export function mustGet(ctx: Ctx, workspaceId: string, name: string): ModelRow {
  const row = find(ctx, workspaceId, name);
  if (!row)
    throw new AppError(
      "resource_not_found",
      `No model ${name.slice(0, 120)}${suggested(ctx, workspaceId, name) || ":"} GET /v1/models?registry=true lists them`,
      {
        param: "id",
      },
    );
  return row;
}

/** The model, or a new row for a model of the hub, which the loop `models.download` downloads. */
export function request(ctx: Ctx, workspaceId: string, hubName: string, param = "/model"): ModelRow {
  const present = findOrDownloadable(ctx, workspaceId, hubName, param);
  if (present) return present;
  const existing = find(ctx, workspaceId, hubName);
  const now = ctx.clock.now();
  const row = write(ctx.db, (tx) => {
    const isDownloading = and(eq(models.workspaceId, workspaceId), eq(models.status, "downloading"));
    limitWaiting({ db: tx, config: ctx.config }, "downloads", models, isDownloading);
    const id = existing?.id ?? add(tx, { workspaceId, name: hubName, hubName, source: "hub" }, now).id;
    return transition(tx, machine, "download", { id, now }, { error: null, progress: 0 });
  });
  ctx.wake("models.download");
  return row ?? mustGet(ctx, workspaceId, hubName);
}

/** The model. Undefined: `request` would download it. Throws if there is none and it cannot be downloaded. */
export function findOrDownloadable(
  ctx: Ctx,
  workspaceId: string,
  hubName: string,
  param: string,
): ModelRow | undefined {
  const row = find(ctx, workspaceId, hubName);
  if (row && row.status !== "failed" && row.status !== "missing") return row;
  if (row && row.source !== "hub") return row;
  if (!parseHubName(hubName))
    throw new AppError(
      "resource_not_found",
      `No model ${JSON.stringify(hubName.slice(0, 120))} on this server${suggested(ctx, workspaceId, hubName) || ":"} \`verk models list\` shows the models, \`verk models import FILE\` adds a file, and a hub name is owner/repo or owner/repo:QUANT`,
      { param },
    );
  if (ctx.config.offline)
    throw new AppError(
      "resource_not_found",
      `No model ${JSON.stringify(hubName.slice(0, 120))} on this server, and offline = true forbids downloads: import the file with \`verk models import FILE\``,
      { param },
    );
  mustBeOpen(ctx, { workspaceId, kind: "models" }, param);
  return undefined;
}

/** `. Did you mean verk-tiny?`, or nothing. */
function suggested(ctx: Ctx, workspaceId: string, name: string): string {
  const names = ctx.db
    .select({ name: models.name })
    .from(models)
    .where(visible(workspaceId))
    .limit(MOST_SUGGESTIONS)
    .all();
  const close = nearest(
    name,
    names.map((each) => each.name),
  );
  return close === undefined ? "" : `. Did you mean ${close}?`;
}

/** The absolute path. Only a ready model has a file that may be opened. */
export function pathOf(ctx: Ctx, row: ModelRow): string {
  if (row.status !== "ready" || row.path === null)
    throw new AppError("unsupported_state", `Model ${row.name} is ${row.status}${row.error ? `: ${row.error}` : ""}`, {
      param: "/model",
    });
  return join(ctx.config.data_dir, row.path);
}

/** Compares the file with the one that was inspected. Native code must not open a file that has changed. */
export function fileOf(ctx: Ctx, row: ModelRow): "same" | "changed" | "gone" {
  const stats = statSync(pathOf(ctx, row), { throwIfNoEntry: false });
  if (!stats) return "gone";
  const same = stats.size === row.sizeBytes && Math.floor(stats.mtimeMs) === row.fileMtimeMs;
  return same ? "same" : "changed";
}

/**
 * The state of a model's file. Each `reason` continues a sentence that begins with the model's name.
 * `waits`: the model may become ready. `recheck`: its header is known, but its file has changed since.
 */
export type Usability =
  | { ready: ModelRow }
  | { waits: "download" | "check" | "recheck"; progress: number; reason: string }
  | { never: true; reason: string };

/** Wakes the scan of the models folder where a file there has changed. */
export function usability(ctx: Ctx, row: ModelRow): Usability {
  const progress = row.progress ?? 0;
  if (row.status === "pending") {
    const waits = row.source === "builtin" && row.shape !== null ? "recheck" : "check";
    const isBeingMade = row.source === "training_job" && row.path === null;
    if (row.source === "quantized")
      return { waits, progress, reason: `is being quantized (${Math.floor(progress * 100)} %)` };
    return { waits, progress, reason: isBeingMade ? "is being made from its checkpoint" : "is being checked" };
  }
  if (row.status === "downloading")
    return { waits: "download", progress, reason: `is being downloaded (${Math.floor(progress * 100)} %)` };
  if (row.status !== "ready") return { never: true, reason: `is ${row.status}${row.error ? `: ${row.error}` : ""}` };
  const file = fileOf(ctx, row);
  if (file === "same") return { ready: row };
  if (file === "changed" && row.workspaceId === null) {
    ctx.wake("models.scan");
    return { waits: "recheck", progress, reason: "has a file that has changed and is being checked again" };
  }
  const fault = file === "gone" ? "has lost its file" : "has a file that has changed since it was checked";
  return { never: true, reason: `${fault}: delete the model and fetch it again` };
}

export function shapeOf(row: ModelRow): ModelShape {
  if (!row.shape) throw new AppError("unsupported_state", `Model ${row.name} is ${row.status}`, { param: "/model" });
  return row.shape;
}

export type ReplicaSize = { contextLength: number; parallel: number; kvType: KvType };

export const estimate = (row: ModelRow, use: Parameters<typeof estimateMemory>[1]): MemoryEstimate =>
  estimateMemory(shapeOf(row), use);

/** The model that an adapter is added to: the recorded one, or the only model here that fits. */
export const baseOf = (ctx: Ctx, workspaceId: string, adapter: ModelRow): ModelRow | undefined => {
  const name = adapter.baseModelId ?? adapter.baseModel;
  if (name !== null) return find(ctx, workspaceId, name);
  const [only, ...others] = fittingBases(ctx, workspaceId, adapter.shape);
  return others.length === 0 ? only : undefined;
};

/**
 * Models that the adapter's tensors fit, best known by architecture, layers and width. Results of jobs and quantized copies count
 * only if no other model fits: an adapter from outside was made for their base.
 */
export function fittingBases(ctx: Ctx, workspaceId: string, adapter: ModelShape | null): ModelRow[] {
  if (adapter === null) return [];
  const fits = ({ shape }: ModelRow) =>
    shape?.type === "model" &&
    shape.layers >= adapter.layers &&
    (adapter.embedding_length === 1 || shape.embedding_length === adapter.embedding_length);
  const ready = and(visible(workspaceId), eq(models.architecture, adapter.architecture), ne(models.status, "missing"));
  const fitting = ctx.db.select().from(models).where(ready).all().filter(fits);
  const originals = fitting.filter(({ source }) => source !== "training_job" && source !== "quantized");
  return originals.length > 0 ? originals : fitting;
}

export type NewModel = { workspaceId: string | null; name: string; source: ModelSource } & Partial<ModelRow>;

/** Adds a row whose file is not checked yet. */
export function add(tx: Tx, model: NewModel, now: number): ModelRow {
  const identity = { id: newId("mdl", now), metadata: {}, createdAt: now, updatedAt: now };
  const row = insert(tx, { ...BLANK, ...identity, ...model });
  emit(tx, "model.created", { workspaceId: row.workspaceId ?? INSTALLATION, now }, present(row));
  return row;
}

const BLANK = {
  status: machine.initial,
  path: null,
  format: "gguf",
  baseModel: null,
  baseModelId: null,
  architecture: null,
  parameters: null,
  contextLength: null,
  quantization: null,
  sizeBytes: null,
  sha256: null,
  fileMtimeMs: null,
  shape: null,
  hubName: null,
  hubFile: null,
  jobId: null,
  checkpointId: null,
  checkpointStep: null,
  variant: null,
  error: null,
  progress: null,
};

export type Inspected = { shape: ModelShape; sizeBytes: number; sha256: string | null; fileMtimeMs: number };

/** The file was inspected and can be used. */
export function accept(tx: Tx, id: string, inspected: Inspected & { path: string }, now: number): ModelRow | undefined {
  const { shape, ...file } = inspected;
  return transition(
    tx,
    machine,
    "accept",
    { id, now },
    {
      ...file,
      shape,
      architecture: shape.architecture,
      parameters: shape.parameters,
      contextLength: shape.context_length,
      quantization: shape.quantization,
      error: null,
      progress: null,
    },
  );
}

/**
 * Uploaded files of a model that is not ready count as storage too. `sizeBytes` is their sum until `accept` sets the size
 * of the file that is used.
 */
export const addBytes = (tx: Tx, id: string, bytes: number) =>
  void tx
    .update(models)
    .set({ sizeBytes: sql`nullif(max(0, coalesce(${models.sizeBytes}, 0) + ${bytes}), 0)` })
    .where(eq(models.id, id))
    .run();

export const recheck = (tx: Tx, id: string, now: number): ModelRow | undefined =>
  transition(tx, machine, "recheck", { id, now }, { error: null });

export const refuse = (tx: Tx, id: string, error: string, now: number): ModelRow | undefined =>
  transition(tx, machine, "refuse", { id, now }, { error, progress: null });
