/**
 * Quantized copies of models. A row requests a copy. The loop `models.quantize` makes few at a time, each in a process
 * that writes below models/.converting; a finished file moves to the results. After a kill the row is due again.
 */
import { mkdir, rm, stat } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { and, eq, inArray } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { QUANTIZATIONS, type Quantization } from "../../../../lib/checkpoints/mix.ts";
import { AppError } from "../../../../lib/errors.ts";
import { type Tx, write } from "../../../../platform/db/db.ts";
import { oldestOfEach } from "../../../../platform/db/oldest_of_each.ts";
import { limitWaiting } from "../../../../platform/db/waiting_limit.ts";
import { renameDurably } from "../../../../platform/files.ts";
import { makeLockedFolder } from "../../../../platform/locked_folder.ts";
import { fileSize, watchGrowth } from "../../../../platform/storage/growth.ts";
import type { ModelShape } from "../../../../workers/protocol.ts";
import { meterOf, mustBeOpen } from "../../../data/storage_usage/service.ts";
import { ask, DIR, removeAbandoned } from "../files/convert.ts";
import type { Refusal } from "../files/inspector.ts";
import { machine } from "../machine.ts";
import { freeName, pathOfResult } from "../results.ts";
import * as models from "../service.ts";
import { type ModelRow, models as table } from "../table.ts";
import { withName } from "./names.ts";

const FLOATS = ["F32", "F16", "BF16"];
const ATTEMPTS = 3; // a process that is killed from outside is not the fault of the file
const PROGRESS_STEP = 0.02; // each step is a write to the database

/** Bits of a weight in a quantized model, for the progress alone. */
const BITS: Record<Quantization, number> = { Q8_0: 8.5, Q6_K: 6.6, Q5_K_M: 5.7, Q4_K_M: 4.9 };

/** Why there is no quantized copy of this model; undefined: there can be one. Continues a sentence with its name. */
export function whyNotQuantizable(row: ModelRow): string | undefined {
  if (row.status !== "ready") return `is ${row.status}`;
  if (row.shape?.type === "adapter") return "is an adapter: quantize the merged model, or its base model";
  if (!FLOATS.includes(row.quantization ?? ""))
    return `has weights in ${row.quantization}, which are quantized already: use the model that it was made from`;
  return undefined;
}

type CopyRequest = { quantization: Quantization; name?: string | undefined };

/** The row of the copy, which may be there already. Its file follows. */
export function requestQuantized(ctx: Ctx, workspaceId: string, source: string, wanted: CopyRequest): ModelRow {
  const from = models.mustGet(ctx, workspaceId, source);
  const why = whyNotQuantizable(from);
  if (why !== undefined) throw new AppError("unsupported_state", `Model ${from.name} ${why}`, { param: "id" });
  const now = ctx.clock.now();
  const { quantization } = wanted;
  const add = () =>
    write(ctx.db, (tx) => {
      const copy = wanted.name === undefined ? copyOf(tx, workspaceId, from.id, quantization) : undefined;
      if (copy && copy.status !== "failed" && copy.status !== "missing") return copy;
      mustBeOpen(ctx, { workspaceId, kind: "models" });
      const isWaiting = and(eq(table.workspaceId, workspaceId), due);
      limitWaiting({ db: tx, config: ctx.config }, "exports", table, isWaiting);
      if (copy)
        return (
          transition(tx, machine, "recheck", { id: copy.id, now }, { error: null, path: null, progress: 0 }) ?? copy
        );
      const stem = from.name.replace(/:[^:]*$/, "");
      const name = wanted.name ?? freeName(tx, workspaceId, `${stem}-${quantization.toLowerCase()}`);
      const origin = { baseModel: from.name, baseModelId: from.id };
      return models.add(tx, { workspaceId, name, source: "quantized", quantization, progress: 0, ...origin }, now);
    });
  const row = wanted.name === undefined ? add() : withName(ctx, workspaceId, wanted.name, add);
  ctx.wake("models.quantize");
  return row;
}

const copyOf = (tx: Tx, workspaceId: string, baseModelId: string, quantization: Quantization) =>
  tx
    .select()
    .from(table)
    .where(
      and(
        eq(table.workspaceId, workspaceId),
        eq(table.source, "quantized"),
        eq(table.baseModelId, baseModelId),
        eq(table.quantization, quantization),
        models.here,
      ),
    )
    .limit(1)
    .get();

const due = and(eq(table.source, "quantized"), eq(table.status, "pending"));
const dueRows = oldestOfEach(table, eq(table.source, "quantized"), eq(table.status, "pending"));

/** Starts the oldest copy of each workspace in turn, as far as there are permits. Returns at once. */
export function startNextQuantizations(ctx: Ctx) {
  const { quantizations, quantizing } = ctx.state.models;
  if (ctx.closing.aborted || quantizations.free === 0) return;
  const idle = dueRows(ctx.db)
    .all({ most: quantizations.permits })
    .filter(({ id }) => !quantizing.has(id));
  quantizations.fillFrom(idle, (row, release) => {
    const stop = new AbortController();
    quantizing.set(row.id, stop);
    void make(ctx, row, AbortSignal.any([ctx.closing, stop.signal]))
      .catch((error) => recordFailure(ctx, row, error))
      .finally(() => {
        quantizing.delete(row.id);
        release();
        ctx.wake("models.quantize");
      });
  });
}

function recordFailure(ctx: Ctx, { id }: ModelRow, error: unknown) {
  if (ctx.closing.aborted) return; // the next server tries again
  const message = (error instanceof Error ? error.message : String(error)).replaceAll(`${ctx.config.data_dir}/`, "");
  ctx.log.warn("a model could not be quantized", { model: id, error: message });
  write(ctx.db, (tx) => models.refuse(tx, id, message, ctx.clock.now()));
}

type Row = ModelRow & { workspaceId: string };
type Made = { ok: true; shape: ModelShape; sizeBytes: number; sha256: string };

async function make(ctx: Ctx, row: Row, signal: AbortSignal) {
  const { data_dir: dataDir } = ctx.config;
  await removeAbandoned(dataDir);
  for (let attempt = 1; ; attempt++) {
    const { dir, remove } = await makeLockedFolder(join(dataDir, DIR));
    try {
      const into = join(dir, "model.gguf");
      using meter = meterOf(ctx, { workspaceId: row.workspaceId, kind: "models" });
      const result = await quantizeInto(ctx, row, { into, meter, signal });
      if (result.ok) return await keep(ctx, row, into, { ...result, onKeep: (bytes) => meter.keep(bytes) });
      signal.throwIfAborted();
      if (!result.broken || attempt === ATTEMPTS) throw new Error(result.error);
      ctx.log.warn("a quantization was cut off", { model: row.id, attempt, error: result.error });
    } finally {
      await remove();
    }
  }
}

type Output = { into: string; meter: ReturnType<typeof meterOf>; signal: AbortSignal };

/** The new file counts for the quota while it grows, and its size is the progress. */
async function quantizeInto(ctx: Ctx, row: Row, { into, meter, signal }: Output): Promise<Made | Refusal> {
  const from = sourceOf(ctx, row);
  const quantization = QUANTIZATIONS.find((each) => each === row.quantization);
  if (quantization === undefined) throw new Error(`${row.quantization} is no quantization`);
  const expected = ((from.parameters ?? 0) * BITS[quantization]) / 8 + 1;
  let saved = 0;
  const full = new AbortController();
  const sizeNow = () => {
    const size = fileSize(into);
    const progress = Math.min(0.99, size / expected);
    if (progress - saved < PROGRESS_STEP) return size;
    saved = progress;
    saveProgress(ctx, row.id, progress);
    return size;
  };
  using growth = watchGrowth(meter, sizeNow, (error) => full.abort(error));
  const path = models.pathOf(ctx, from);
  const threads = ctx.config.serving.threads || availableParallelism();
  const task = { type: "quantize", path, into, quantization, threads, data_dir: ctx.config.data_dir } as const;
  const grants = { reads: [path], writes: [dirname(into)] };
  const both = AbortSignal.any([signal, full.signal]);
  const result = await ask<Made>(ctx.supervisor, { grants, signal: both }, task, (message) => {
    if (message.type !== "quantized") return undefined;
    const { shape, size_bytes: sizeBytes, sha256 } = message;
    return { done: { ok: true, shape, sizeBytes, sha256 } };
  });
  full.signal.throwIfAborted();
  growth.check();
  return result;
}

const saveProgress = (ctx: Ctx, id: string, progress: number) =>
  void write(ctx.db, (tx) =>
    tx
      .update(table)
      .set({ progress })
      .where(and(eq(table.id, id), inArray(table.status, ["pending"])))
      .run(),
  );

/** The model that the copy is made from, with the file that was checked. */
function sourceOf(ctx: Ctx, { workspaceId, baseModelId, baseModel }: Row): ModelRow {
  const from = baseModelId === null ? undefined : models.find(ctx, workspaceId, baseModelId);
  if (!from) throw new Error(`The model ${baseModel}, which it is made from, was deleted`);
  const use = models.usability(ctx, from);
  if ("ready" in use) return use.ready;
  throw new Error(`The model ${from.name}, which it is made from, ${use.reason}`);
}

type Finished = Made & { onKeep: (bytes: number) => void };

/** The file has its name before the row says so: after a kill between the two, it is made again and replaced. */
async function keep(ctx: Ctx, { id }: Row, from: string, { shape, sizeBytes, sha256, onKeep }: Finished) {
  const path = pathOfResult(id);
  const full = join(ctx.config.data_dir, path);
  await mkdir(dirname(full), { recursive: true, mode: 0o700 });
  await renameDurably(from, full);
  const fileMtimeMs = Math.floor((await stat(full)).mtimeMs);
  const ready = write(ctx.db, (tx) => {
    onKeep(sizeBytes);
    return models.accept(tx, id, { shape, sizeBytes, sha256, fileMtimeMs, path }, ctx.clock.now());
  });
  if (!ready) await rm(full, { force: true }); // the copy was deleted meanwhile
}
