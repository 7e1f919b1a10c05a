/**
 * The ledger of accelerator memory. A holder takes a lease before it loads a model, reports the measured memory with
 * `correct`, and calls `release` once its process has ended. Leases and waits are rows. Each kind of holder registers
 * functions that list its idle holders and evict one (`registerKind`).
 */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import type { PageQuery } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { afterCommit, openCommit, type Tx, write } from "../../../platform/db/db.ts";
import { memoryLimitBytes } from "../../../platform/machine/hardware.ts";
import { offersIn } from "../regions/service.ts";
import { type DeviceReading, devicesFresh, devicesKnown, devicesSeen, type Leased, probeWith } from "./inventory.ts";
import { type Device, type Placement, place, type Request } from "./policy.ts";
import { type GpuAvailability, present, presentAvailability, type View } from "./schema.ts";
import { gpuLeases, gpuWaits, type LeaseRow } from "./table.ts";

export type { Request } from "./policy.ts";

/** `devices`: indices for the worker; empty: the CPU. */
export type Grant =
  | { status: "granted"; devices: number[]; deviceIds: string[] }
  | { status: "waiting"; reason: string }
  | { status: "never"; reason: string };

export type Kind = {
  /** Idle holders that may be parked now, and since when (epoch ms). Called inside a write, so it is synchronous. */
  idle: () => { holder: string; since: number }[];
  /** Resolves once the holder has called `release`, or has refused because it is busy again. */
  evict: (holder: string, why: string) => Promise<void>;
};

const EVICTION_MS = 60_000; // longer than a drain and an orderly end of a worker
const MOST_TURNS = 8;

export function registerKind(ctx: Ctx, name: string, kind: Kind) {
  ctx.state.gpu.kinds.set(name, kind);
}

/** `listener` is called after each commit that freed memory: a waiter then calls `acquire` again. Returns a stop. */
export function onFreed(ctx: Ctx, listener: () => void): () => void {
  const { listeners } = ctx.state.gpu;
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Replaces the list of cards: for builds that cannot use a card, and for tests. */
export const useProbe = probeWith;

/** Called at the start, before the first `acquire`: no holder outlives the server. Lists the devices once. */
export function clear(ctx: Ctx) {
  write(ctx.db, (tx) => {
    tx.delete(gpuLeases).run();
    tx.delete(gpuWaits).run();
  });
  const { settled, leaving } = ctx.state.gpu;
  settled.clear();
  leaving.clear();
  void devices(ctx);
}

/**
 * Memory for a holder. Another call changes nothing: a holder gets the lease that it has, and a waiter keeps its
 * position in the queue until `release`. A waiter calls again on `onFreed`, and now and then: a holder may become idle.
 */
export async function acquire(ctx: Ctx, request: Request): Promise<Grant> {
  check(request);
  const refused = new Set<string>();
  let queued = false;
  let seen = await devicesSeen(ctx, leasedOn(ctx));
  for (let turn = 0; turn < MOST_TURNS; turn++) {
    const decided = decide(ctx, seen, request, { refused, queued });
    if (decided.outcome === "granted") {
      await openCommit(ctx.db); // no flush is needed: after a crash there are no leases
      return grantOf(decided.devices);
    }
    queued = decided.outcome !== "never";
    const before = seen;
    seen = await devicesFresh(ctx, leasedOn(ctx));
    if (turn === 0 && seen !== before) continue; // the decision was made with old figures
    if (decided.outcome === "never") return { status: "never", reason: decided.reason };
    if (decided.outcome === "wait") return { status: "waiting", reason: decided.reason };
    const why = `makes room for a ${request.kind.replace("_", " ")}`;
    const evicted = await Promise.all(decided.holders.map((holder) => evict(ctx, holder, why)));
    for (const [i, holder] of decided.holders.entries()) if (!evicted[i]) refused.add(holder);
  }
  return { status: "waiting", reason: waitingReason(ctx, request.holder) ?? "waits for memory" };
}

function check({ bytes, gpuCount }: Request) {
  if (!Number.isSafeInteger(bytes) || bytes < 0 || !Number.isSafeInteger(gpuCount) || gpuCount < 1)
    throw new RangeError(`a lease of ${bytes} bytes on ${gpuCount} devices`);
}

/** `refused`: holders that did not give way. `queued`: this attempt has put the request into the queue. */
type Attempt = { refused: ReadonlySet<string>; queued: boolean };

/** Decision and row in one synchronous write: two requests cannot be given the same bytes. */
function decide(ctx: Ctx, seen: DeviceReading[], request: Request, { refused, queued }: Attempt): Placement {
  const { leaving } = ctx.state.gpu;
  return write(ctx.db, (tx) => {
    for (const holder of leaving) removeRows(ctx, tx, holder);
    leaving.delete(request.holder); // it acquires again
    const leases = tx.select().from(gpuLeases).all();
    const ownLeases = leases.filter(({ holder }) => holder === request.holder);
    if (ownLeases.length > 0) return { outcome: "granted", devices: devicesOf(ownLeases, seen) };
    const waits = tx.select().from(gpuWaits).all();
    if (queued && waits.every(({ holder }) => holder !== request.holder))
      return { outcome: "wait", reason: "was released meanwhile" };
    const idle = new Map([...idleHolders(ctx)].filter(([holder]) => !refused.has(holder)));
    const placement = place({ devices: seen, leases, waits, idle, mainCapacityBytes: mainCapacity(ctx) }, request);
    if (placement.outcome === "granted") lease(tx, ctx.clock.now(), placement.devices, request);
    if (placement.outcome === "granted" || placement.outcome === "never")
      tx.delete(gpuWaits).where(eq(gpuWaits.holder, request.holder)).run();
    if (placement.outcome === "wait") enqueue(tx, ctx.clock.now(), request, placement.reason);
    if (placement.outcome === "evict")
      enqueue(tx, ctx.clock.now(), request, "waits for an idle deployment to be parked");
    return placement;
  });
}

/** True if the request would be granted once `holders` have released their leases. Idle holders of others give way. */
export function fitsWithout(ctx: Ctx, request: Request, holders: readonly string[]): boolean {
  const leases = ctx.db.select().from(gpuLeases).all();
  const waits = ctx.db.select().from(gpuWaits).all();
  const others = leases.filter(({ holder }) => !holders.includes(holder));
  const ledger = { devices: known(ctx), leases: others, waits, idle: idleHolders(ctx) };
  const { outcome } = place(ledger, request);
  return outcome === "granted" || outcome === "evict";
}

const grantOf = (devices: readonly Device[]): Grant => ({
  status: "granted",
  devices: devices.filter(({ type }) => type !== "cpu").map(({ index }) => index),
  deviceIds: devices.map(({ id }) => id),
});

/** Main memory that holders of GPUs may lease together. */
export const mainCapacity = ({ config }: Pick<Ctx, "config">): number =>
  Math.floor(memoryLimitBytes() * config.gpu.cpu_share);

const devicesOf = (leases: readonly LeaseRow[], seen: readonly DeviceReading[]) =>
  leases.flatMap((each) => seen.find(({ id }) => id === each.device) ?? []);

function lease(tx: Tx, now: number, devices: readonly Device[], request: Request) {
  const { holder, kind, workspaceId, priority, pinned } = request;
  const bytes = Math.ceil(request.bytes / devices.length);
  for (const [i, { id }] of devices.entries()) {
    const mainBytes = i === 0 ? (request.mainBytes ?? 0) : 0;
    const times = { createdAt: now, updatedAt: now };
    tx.insert(gpuLeases)
      .values({ holder, device: id, kind, workspaceId, bytes, mainBytes, priority, pinned, ...times })
      .run();
  }
}

function enqueue(tx: Tx, now: number, request: Request, reason: string) {
  const { holder, kind, workspaceId, gpuType = null, gpuCount, bytes, priority } = request;
  const fields = { kind, workspaceId, gpuType, gpuCount, bytes, priority, reason, updatedAt: now };
  tx.insert(gpuWaits)
    .values({ holder, ...fields, createdAt: now })
    .onConflictDoUpdate({ target: gpuWaits.holder, set: fields }) // `createdAt` stays: it is the position in the queue
    .run();
}

/** Each holder is evicted once at a time, for all requests that want its memory. False: it did not give way. */
function evict(ctx: Ctx, holder: string, why: string): Promise<boolean> {
  const { evicting, kinds } = ctx.state.gpu;
  const running = evicting.get(holder);
  if (running) return running;
  const kind = kinds.get(heldBy(ctx, holder)[0]?.kind ?? "");
  const attempt = (async () => {
    const over = new AbortController();
    try {
      await Promise.race([kind?.evict(holder, why), ctx.clock.sleep(EVICTION_MS, over.signal)]);
    } catch (error) {
      ctx.log.warn("a holder of memory could not be evicted", { holder, error });
    } finally {
      over.abort();
      evicting.delete(holder);
    }
    return heldBy(ctx, holder).length === 0;
  })();
  evicting.set(holder, attempt);
  return attempt;
}

/** Gives back the lease of the holder, or its position in the queue. Without either, nothing happens. */
export function release(ctx: Ctx, holder: string) {
  const { settled, leaving } = ctx.state.gpu;
  settled.delete(holder);
  leaving.add(holder);
  write(ctx.db, (tx) => {
    if (removeRows(ctx, tx, holder)) freed(ctx, tx); // a waiter that leaves may have held up others
  });
}

/** True: it had a lease or a position in the queue. */
function removeRows(ctx: Ctx, tx: Tx, holder: string): boolean {
  const leases = tx.delete(gpuLeases).where(eq(gpuLeases.holder, holder)).returning().all();
  const waits = tx.delete(gpuWaits).where(eq(gpuWaits.holder, holder)).returning().all();
  afterCommit(tx, () => ctx.state.gpu.leaving.delete(holder));
  return leases.length + waits.length > 0;
}

/** The memory that the worker measured, summed over its devices. */
export function correct(ctx: Ctx, holder: string, bytes: number) {
  write(ctx.db, (tx) => {
    const leases = heldBy(ctx, holder);
    const each = Math.ceil(bytes / Math.max(1, leases.length));
    const set = { bytes: each, updatedAt: ctx.clock.now() };
    tx.update(gpuLeases).set(set).where(eq(gpuLeases.holder, holder)).run();
    if (leases.some((lease) => lease.bytes > each)) freed(ctx, tx);
    if (leases.length > 0) ctx.state.gpu.settled.add(holder);
  });
}

/** A pinned holder is never evicted. */
export function pin(ctx: Ctx, holder: string, pinned: boolean) {
  write(ctx.db, (tx) => {
    const set = { pinned, updatedAt: ctx.clock.now() };
    tx.update(gpuLeases).set(set).where(eq(gpuLeases.holder, holder)).run();
    if (!pinned) freed(ctx, tx); // a waiter may evict it now
  });
}

const freed = (ctx: Ctx, tx: Tx) =>
  afterCommit(tx, () => {
    for (const listener of ctx.state.gpu.listeners) listener();
  });

/** The reason why the holder waits; undefined: it does not wait. */
export const waitingReason = (ctx: Ctx, holder: string): string | undefined =>
  ctx.db.select().from(gpuWaits).where(eq(gpuWaits.holder, holder)).get()?.reason;

const heldBy = (ctx: Ctx, holder: string) => ctx.db.select().from(gpuLeases).where(eq(gpuLeases.holder, holder)).all();

export type Holder = { holder: string; device: string; idle: boolean };

/** The holders of memory, by device. `idle`: it does nothing now. */
export function holders(ctx: Ctx): Holder[] {
  const idle = idleHolders(ctx);
  const leases = ctx.db.select().from(gpuLeases).all();
  return leases.map(({ holder, device }) => ({ holder, device, idle: idle.has(holder) }));
}

/** Lists all devices: there are few. */
export async function list(ctx: Ctx, workspaceId: string, { after, limit }: PageQuery) {
  const seen = await devices(ctx);
  const view = viewOf(ctx, workspaceId);
  const start = after === undefined ? 0 : seen.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && start === 0)
    throw new AppError("invalid_cursor", `after: no item ${after.slice(0, 80)} in this list`, { param: "after" });
  const listed = seen.slice(start);
  return {
    object: "list",
    data: listed.slice(0, limit).map((device) => present(device, view)),
    has_more: listed.length > limit,
  };
}

export async function availability(ctx: Ctx, workspaceId: string): Promise<GpuAvailability> {
  const seen = await devices(ctx);
  return presentAvailability(seen, queue(ctx), { ...viewOf(ctx, workspaceId), offers: offersIn(ctx, workspaceId) });
}

const viewOf = (ctx: Ctx, reader: string): View => ({
  reader,
  leases: ctx.db.select().from(gpuLeases).orderBy(gpuLeases.createdAt, gpuLeases.holder).all(),
  idle: idleHolders(ctx),
});

/** Waits in the order in which they are granted. */
const queue = (ctx: Ctx) =>
  ctx.db
    .select()
    .from(gpuWaits)
    .all()
    .sort((a, b) => b.priority - a.priority || a.createdAt - b.createdAt || (a.holder < b.holder ? -1 : 1));

/** Holders that may be evicted, and since when they are idle (epoch ms). */
const idleHolders = (ctx: Ctx): Map<string, number> =>
  new Map([...ctx.state.gpu.kinds.values()].flatMap((kind) => kind.idle().map((each) => [each.holder, each.since])));

export const devices = (ctx: Ctx): Promise<DeviceReading[]> => devicesFresh(ctx, leasedOn(ctx));
export const known = (ctx: Ctx): DeviceReading[] => devicesKnown(ctx, leasedOn(ctx));

const leasedOn =
  (ctx: Ctx): Leased =>
  (device) => {
    const { settled } = ctx.state.gpu;
    const held = ctx.db.select().from(gpuLeases).where(eq(gpuLeases.device, device)).all();
    return {
      bytes: held.reduce((total, { bytes }) => total + bytes, 0),
      unsettled: held.some(({ holder }) => !settled.has(holder)),
    };
  };
