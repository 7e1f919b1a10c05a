/**
 * LoRA adapters that a request chooses, with `model: "deployment:adapter"` or with `lora`. An adapter joins the process
 * of the replica with the first request that uses it, and stays there until others need its place. Its memory is leased.
 */
import { and, asc, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import * as models from "../../models/service.ts";
import { type ModelRow, models as modelTable } from "../../models/table.ts";
import type { Host, Lora, Replica } from "../fleet/fleet.ts";
import { payerOf } from "../fleet/hosts.ts";
import { withoutPaths } from "../fleet/loss.ts";
import { fileIdentity, isAdapter, partsOf } from "../fleet/parts.ts";
import type { DeploymentRow } from "../table.ts";
import { addLine } from "../traffic/log.ts";

const MOST = 64; // adapters and combinations of them in one process
const MAX_LISTED = 100;
const MOST_READ = 1_000; // adapters of a workspace, also of other models
const MOST_BASES = 100; // that are looked up for one list

/** An adapter and how strongly it applies. */
export type LoraChoice = { model: ModelRow; scale: number };
type Body = { model: string; lora?: readonly { id: string | number; scale: number }[] | null | undefined };

/** The part of `model` behind the deployment. Undefined if `model` names the deployment alone. */
function adapterPart({ name, id, model: modelName, modelId }: DeploymentRow, model: string): string | undefined {
  const at = model.lastIndexOf(":");
  return [name, id, modelName, modelId].includes(model.slice(0, at)) && model !== name
    ? model.slice(at + 1)
    : undefined;
}

/** The adapters that the request names. They replace the adapter of the deployment. */
export function chosenLoras(ctx: Ctx, row: DeploymentRow, body: Body): LoraChoice[] {
  const named = adapterPart(row, body.model);
  const listed = (body.lora ?? []).map(({ id, scale }, i) => ({ ref: id, scale, param: `/lora/${i}/id` }));
  const wanted = named === undefined ? listed : [{ ref: named, scale: 1, param: "/model" }, ...listed];
  return wanted
    .filter(({ scale }) => scale !== 0)
    .map(({ ref, scale, param }) => ({ model: adapterFor(ctx, row, ref, param), scale }));
}

/** A number counts in the list of the adapters, as llama.cpp's server numbers them. */
function adapterFor(ctx: Ctx, row: DeploymentRow, ref: string | number, param: string): ModelRow {
  const adapter = typeof ref === "number" ? adaptersOf(ctx, row)[ref] : models.find(ctx, row.workspaceId, ref);
  if (!adapter || !fits(ctx, row, adapter)) {
    const names = adaptersOf(ctx, row).map(({ name }) => name);
    const those = names.length === 0 ? "It has none" : `It has: ${names.slice(0, 10).join(", ")}`;
    const message = `${param.slice(1)}: the deployment ${row.name} has no adapter ${typeof ref === "number" ? ref : `named ${JSON.stringify(ref.slice(0, 100))}`}. ${those}`;
    throw new AppError("resource_not_found", message, { param });
  }
  const use = models.usability(ctx, adapter);
  if ("ready" in use) return adapter;
  throw new AppError("invalid_request", `${param.slice(1)}: the adapter ${adapter.name} ${use.reason}`, { param });
}

const baseFor = (ctx: Ctx, row: DeploymentRow): ModelRow | undefined => {
  const model = models.find(ctx, row.workspaceId, row.modelId ?? row.model);
  return model && partsOf(ctx, row.workspaceId, model)?.base;
};

function fits(ctx: Ctx, row: DeploymentRow, adapter: ModelRow, base = baseFor(ctx, row)): boolean {
  return base !== undefined && isAdapter(adapter) && models.baseOf(ctx, row.workspaceId, adapter)?.id === base.id;
}

/** Tells which deployments can use an adapter. Each base model is looked up once. */
export function adaptsFor(ctx: Ctx, workspaceId: string, adapter: ModelRow): (row: DeploymentRow) => boolean {
  const base = models.baseOf(ctx, workspaceId, adapter)?.id;
  const known = new Map<string, boolean>();
  return (row) => {
    const key = row.modelId ?? row.model;
    if (!known.has(key) && known.size < MOST_BASES)
      known.set(key, base !== undefined && baseFor(ctx, row)?.id === base);
    return known.get(key) ?? false;
  };
}

/** The adapters of the workspace that a request to this deployment can use, by name. */
export function adaptersOf(ctx: Ctx, row: DeploymentRow): ModelRow[] {
  const base = baseFor(ctx, row);
  if (!base) return [];
  const isLora = sql`${modelTable.shape} ->> '$.type' = 'adapter'`;
  const adapters = ctx.db
    .select()
    .from(modelTable)
    .where(and(eq(modelTable.workspaceId, row.workspaceId), eq(modelTable.status, "ready"), isLora))
    .orderBy(asc(modelTable.name))
    .limit(MOST_READ)
    .all();
  const isFitting = new Map<string, boolean>(); // whether the name of a base is the base of this deployment
  const fitting: ModelRow[] = [];
  for (const adapter of adapters) {
    const name = adapter.baseModelId ?? adapter.baseModel ?? adapter.id;
    if (!isFitting.has(name) && isFitting.size < MOST_BASES) isFitting.set(name, fits(ctx, row, adapter, base));
    if (isFitting.get(name)) fitting.push(adapter);
    if (fitting.length === MAX_LISTED) break;
  }
  return fitting;
}

/** Brings the adapters into the replica's process. The request calls `releaseLora` when it ends. */
export async function useLoras(
  ctx: Ctx,
  row: DeploymentRow,
  { host }: Replica,
  choices: readonly LoraChoice[],
): Promise<Lora> {
  const parts = choices.map(({ model }) => hold(ctx, single(ctx, row, host, model)));
  try {
    await Promise.all(parts.map(({ ready }) => ready));
    const [first] = parts;
    const alone = parts.length === 1 && choices[0]?.scale === 1 ? first : undefined;
    const lora = hold(ctx, alone ?? together(ctx, host, parts, choices));
    await lora.ready.catch((error) => {
      releaseLora(ctx, lora);
      throw error;
    });
    return lora;
  } finally {
    for (const part of parts) releaseLora(ctx, part);
  }
}

function hold(ctx: Ctx, lora: Lora): Lora {
  lora.users++;
  lora.usedAt = ctx.clock.steady();
  return lora;
}

export function releaseLora(ctx: Ctx, lora: Lora) {
  lora.users--;
  lora.usedAt = ctx.clock.steady();
}

type NewLora = Pick<Lora, "holder" | "parts" | "modelId"> & { key: string };

/** Adds an entry whose `ready` waits for the worker. It leaves the process again if it cannot be had. */
function add(ctx: Ctx, host: Host, { key, holder, parts, modelId }: NewLora): Lora {
  makeRoom(ctx, host);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const name = `lora/${crypto.randomUUID()}`;
  const settle = (error?: string | AppError) => {
    if (error === undefined) return resolve();
    drop(ctx, host, key);
    if (error instanceof AppError) return reject(error);
    const message = `The adapter cannot be used: ${withoutPaths(error, ctx.config.data_dir)}`;
    reject(new AppError("invalid_request", message, { param: "/model" }));
  };
  promise.catch(() => {}); // each request that waits for it handles the error
  for (const part of parts) hold(ctx, part);
  const lora: Lora = { name, holder, parts, modelId, ready: promise, settle, users: 0, usedAt: ctx.clock.steady() };
  host.loras.set(key, lora);
  return lora;
}

function single(ctx: Ctx, row: DeploymentRow, host: Host, model: ModelRow): Lora {
  const key = JSON.stringify([model.id, model.path, model.fileMtimeMs]);
  const existing = host.loras.get(key);
  if (existing) return existing;
  const lora = add(ctx, host, {
    key,
    holder: `${row.id}/lora-${crypto.randomUUID()}`,
    parts: [],
    modelId: model.id,
  });
  bring(ctx, row, host, { lora, model }).catch((error) =>
    lora.settle(error instanceof AppError || !(error instanceof Error) ? error : error.message),
  );
  return lora;
}

async function bring(ctx: Ctx, row: DeploymentRow, host: Host, { lora, model }: { lora: Lora; model: ModelRow }) {
  const beside = payerOf(host)?.holder;
  const { holder } = lora;
  if (beside === undefined || holder === null) throw new AppError("worker_failed", "The replica ends. Try again");
  const request = {
    holder,
    kind: "deployment",
    workspaceId: row.workspaceId,
    bytes: model.shape?.weight_bytes ?? 0,
    beside,
    gpuType: row.gpuType,
    gpuCount: row.gpuCount,
    priority: 0,
    pinned: row.pinned,
    mayEvict: false,
  } as const;
  const grant = host.remote ? undefined : await gpu.acquire(ctx, request); // the memory of a node is not leased
  if (grant && grant.status !== "granted")
    throw new AppError("no_capacity", `There is no memory for the adapter ${model.name}: it ${grant.reason}`, {
      retryAfterSeconds: 5,
    });
  const path = models.pathOf(ctx, model);
  addLine(ctx, row.id, "info", `The adapter ${model.name} is brought into a replica`);
  const { worker } = host;
  worker.send({
    type: "attach",
    name: lora.name,
    path: worker.link(path) ?? (await worker.bring(path)),
    model_id: model.id,
    identity: fileIdentity(model),
  });
}

/** Several adapters, or one with a scale of its own, under one name. */
function together(ctx: Ctx, host: Host, parts: readonly Lora[], choices: readonly LoraChoice[]): Lora {
  const key = JSON.stringify(parts.map(({ name }, i) => [name, choices[i]?.scale]));
  const existing = host.loras.get(key);
  if (existing) return existing;
  const lora = add(ctx, host, { key, holder: null, parts, modelId: null });
  host.worker.send({
    type: "combine",
    name: lora.name,
    parts: parts.map(({ name }, i) => ({ name, scale: choices[i]?.scale ?? 1 })),
    model_id: choices.map(({ model, scale }) => (scale === 1 ? model.id : `${model.id}*${scale}`)).join("+"),
  });
  return lora;
}

/** The entry unused for longest makes room. If requests use all of them, the number may grow beyond the limit. */
function makeRoom(ctx: Ctx, host: Host) {
  if (host.loras.size < MOST) return;
  const [oldest] = [...host.loras].filter(([, { users }]) => users === 0).sort(([, a], [, b]) => a.usedAt - b.usedAt);
  if (!oldest) return;
  host.worker.send({ type: "detach", name: oldest[1].name });
  drop(ctx, host, oldest[0]);
}

function drop(ctx: Ctx, host: Host, key: string) {
  const lora = host.loras.get(key);
  if (!lora) return;
  host.loras.delete(key);
  if (lora.holder !== null) gpu.release(ctx, lora.holder);
  for (const part of lora.parts) releaseLora(ctx, part);
}
