/**
 * The detector's process: started by the first who needs it, kept, ended when nobody does, and started again after a
 * crash. A file that ends it cannot be told from the others that were in it, so each of those is tried once more,
 * alone: whoever ends it then is at fault, and is known by its hash from then on.
 */
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { oncePer } from "../../lib/once_per.ts";
import { Semaphore } from "../../platform/semaphore.ts";
import type { Supervisor } from "../../platform/workers/supervisor.ts";
import type { Exit, Grants, Worker } from "../../platform/workers/types.ts";
import { FromDetector, type ModelName, Refused, Scored, type ToDetector } from "../../workers/protocol_detector.ts";
import { createGate } from "./gate.ts";

/** What is needed of a server; the command line has as much. */
export type Room = Pick<Ctx, "config" | "clock" | "log" | "supervisor" | "closing">;
export type Versions = Partial<Record<ModelName, string>>;
export type Child = { worker: Worker<FromDetector, ToDetector>; opened: Promise<Versions> };
type State = {
  permits: Semaphore | undefined;
  child: Child | undefined;
  /** Of the last that opened. */
  versions: Versions | undefined;
  /** Starts in a row that came to nothing. */
  failures: number;
  notBefore: number;
  busy: number;
  /** Of files that are in it or wait for it. */
  heldBytes: number;
  idle: AbortController;
  readonly deadly: Set<string>;
  readonly gate: ReturnType<typeof createGate>;
};

const stateOf = oncePer(
  (_of: Supervisor): State => ({
    permits: undefined,
    child: undefined,
    versions: undefined,
    failures: 0,
    notBefore: 0,
    busy: 0,
    heldBytes: 0,
    idle: new AbortController(),
    deadly: new Set(),
    gate: createGate(),
  }),
);

const LINE = 8; // waiting, for each that can be in it
const MOST_HELD_BYTES = 256 << 20; // and as much again as text
const MOST_DEADLY = 10_000;
const OPEN_MS = 60_000;
const STOP_MS = 1_000;
const FIRST_PAUSE_MS = 500;
const LAST_PAUSE_MS = 30_000;
const DIED = Symbol("the detector died");

export type Ask = {
  workspaceId: string;
  bytes: Uint8Array<ArrayBuffer>;
  hash: string;
  models: readonly ModelName[];
  robustness: boolean;
  signal: AbortSignal;
};

function permitsOf({ config }: Room, state: State): Semaphore {
  const total = config.detect.parallel;
  state.permits ??= new Semaphore({ permits: total, maxWaiting: total * LINE });
  return state.permits;
}

/** 503 where even the line is full: before a body is read that would have to wait for nothing. */
export function requireLine(ctx: Room) {
  const permits = permitsOf(ctx, stateOf(ctx.supervisor));
  if (permits.waiting >= ctx.config.detect.parallel * LINE) throw full();
}

const full = () =>
  new AppError("no_capacity", "The detector is busy and its line is full: try again soon", { retryAfterSeconds: 1 });

/** Of the models as they are now; asks a detector where none has said it yet. */
export async function versionsOf(ctx: Room): Promise<Versions> {
  const state = stateOf(ctx.supervisor);
  return state.versions ?? (await inUse(ctx, state, () => open(ctx, state).opened));
}

export async function score(ctx: Room, ask: Ask): Promise<Scored> {
  const state = stateOf(ctx.supervisor);
  if (state.deadly.has(ask.hash)) throw deadly();
  if (state.heldBytes + ask.bytes.length > MOST_HELD_BYTES) throw full();
  state.heldBytes += ask.bytes.length;
  try {
    return await inTurn(ctx, state, ask);
  } finally {
    state.heldBytes -= ask.bytes.length;
  }
}

async function inTurn(ctx: Room, state: State, ask: Ask): Promise<Scored> {
  const timeout = { clock: ctx.clock, ms: ctx.config.detect.wait_ms };
  const release = await permitsOf(ctx, state).acquire(ask, { timeout });
  if (!release) throw full();
  try {
    return await inUse(ctx, state, async () => {
      const first = await state.gate.shared(() => tryOnce(ctx, state, ask));
      if (first !== DIED) return first;
      const second = await state.gate.alone(() => tryOnce(ctx, state, ask));
      if (second !== DIED) return second;
      if (state.deadly.size >= MOST_DEADLY) state.deadly.clear();
      state.deadly.add(ask.hash);
      throw deadly();
    });
  } finally {
    release();
  }
}

const deadly = () => new AppError("invalid_image", "The file cannot be decoded: the decoder broke on it twice");

/** Nobody is left: it ends after a while, unless somebody comes. */
async function inUse<T>(ctx: Room, state: State, work: () => Promise<T>): Promise<T> {
  state.busy++;
  state.idle.abort();
  try {
    return await work();
  } finally {
    if (--state.busy === 0) void endWhenIdle(ctx, state);
  }
}

async function endWhenIdle(ctx: Room, state: State) {
  const idle = new AbortController();
  state.idle = idle;
  const signal = AbortSignal.any([idle.signal, ctx.closing]);
  await ctx.clock.sleep(ctx.config.detect.idle_seconds * 1000, signal);
  if (signal.aborted) return;
  const { child } = state;
  state.child = undefined;
  await child?.worker.stop("nobody needs it");
}

function open(ctx: Room, state: State): Child {
  if (state.child) return state.child;
  const waitMs = state.notBefore - ctx.clock.now();
  if (waitMs > 0) throw unavailable("it could not be started", waitMs);
  const opened = Promise.withResolvers<Versions>();
  opened.promise.catch(() => {}); // whoever waits for it hears of it
  let isOpen = false;
  const onExit = (exit: Exit) => {
    if (state.child === child) state.child = undefined;
    opened.reject(unavailable(exit.message));
    if (isOpen || exit.kind === "stopped") return;
    state.failures++;
    state.notBefore = ctx.clock.now() + Math.min(FIRST_PAUSE_MS * 2 ** (state.failures - 1), LAST_PAUSE_MS);
  };
  const { data_dir, detect } = ctx.config;
  const modelsDir = detect.models_dir === "" ? undefined : resolve(detect.models_dir);
  const grants = { reads: modelsDir === undefined ? [] : [modelsDir] };
  const worker = spawn(ctx, grants, onExit, (message) => {
    if (message.type !== "opened") return;
    isOpen = true;
    state.failures = 0;
    state.versions = message.versions;
    opened.resolve(message.versions);
  });
  const child: Child = { worker, opened: opened.promise };
  state.child = child;
  const threads = detect.threads || availableParallelism();
  const other = modelsDir === undefined ? {} : { models_dir: modelsDir };
  worker.ready.then(
    () => worker.send({ type: "open", data_dir, threads, max_pixels: detect.max_pixels, ...other }),
    () => {}, // its end is told above
  );
  void stopUnlessOpen(ctx, child);
  return child;
}

type OnExit = (exit: Exit) => void;

function spawn(ctx: Room, grants: Grants, onExit: OnExit, onMessage: (message: FromDetector) => void) {
  const options = { kind: "detector", incoming: FromDetector, grants, graceMs: STOP_MS, onMessage, onExit };
  try {
    return ctx.supervisor.spawn<FromDetector, ToDetector>(options);
  } catch (error) {
    throw unavailable((error as Error).message);
  }
}

async function stopUnlessOpen(ctx: Room, { worker, opened }: Child) {
  const over = new AbortController();
  const settled = opened.then(
    () => over.abort(),
    () => over.abort(),
  );
  await Promise.race([settled, ctx.clock.sleep(OPEN_MS, over.signal)]);
  if (!over.signal.aborted) await worker.stop(`it did not open within ${OPEN_MS} ms`);
}

const unavailable = (why: string, waitMs = FIRST_PAUSE_MS) =>
  new AppError("detector_unavailable", `The detector is not available: ${why}`, { retryAfterSeconds: waitMs / 1000 });

async function tryOnce(ctx: Room, state: State, ask: Ask): Promise<Scored | typeof DIED> {
  ask.signal.throwIfAborted();
  const child = open(ctx, state);
  await child.opened;
  const late = AbortSignal.timeout(ctx.config.detect.timeout_ms);
  let status: number;
  let body: unknown;
  try {
    const query = new URLSearchParams({ models: ask.models.join(), robustness: ask.robustness ? "1" : "0" });
    const response = await fetch(`http://detector/score?${query}`, {
      method: "POST",
      body: ask.bytes,
      unix: child.worker.socketPath,
      signal: AbortSignal.any([ask.signal, late]),
    });
    status = response.status;
    body = await response.json();
  } catch {
    ask.signal.throwIfAborted();
    if (state.child === child) state.child = undefined; // nobody else goes there
    void child.worker.stop("it did not answer"); // another takes its place meanwhile
    return DIED;
  }
  if (status === 200) return answerOf(ctx, Scored.safeParse(body));
  if (status !== 422)
    throw new AppError("all_models_failed", "The detector failed on this file; its log has the details");
  const refused = answerOf(ctx, Refused.safeParse(body));
  throw new AppError(CODES[refused.code], refused.error);
}

const CODES = {
  INVALID_IMAGE: "invalid_image",
  UNSUPPORTED_FORMAT: "unsupported_format",
  IMAGE_TOO_LARGE: "image_too_large",
  UNKNOWN_MODEL: "unknown_model",
} as const;

function answerOf<T>(ctx: Room, parsed: { success: true; data: T } | { success: false; error: Error }): T {
  if (parsed.success) return parsed.data;
  ctx.log.error("the detector gave an answer outside its protocol", { error: parsed.error });
  throw new AppError("all_models_failed", "The detector gave an answer that cannot be understood");
}
