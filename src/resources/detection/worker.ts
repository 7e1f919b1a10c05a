/**
 * The detector's process. It is started when it is needed, kept, stopped when it is idle, and started again after a
 * crash. When it dies, any of the files that it held may be the cause. So each of them is retried once, alone. A file
 * that kills it again is blamed, and is rejected by its hash from then on.
 */
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { MIB } from "../../lib/units.ts";
import type { PixelImage } from "../../lib/vision/pixels.ts";
import { Semaphore } from "../../platform/semaphore.ts";
import type { Exit, Grants, Worker } from "../../platform/workers/types.ts";
import { FromDetector, type ModelName, type Scored, type ToDetector } from "../../workers/protocol_detector.ts";
import { currentNumber, pathOf } from "./adaptation.ts";
import { type Answer, readPixels, readScores } from "./answer.ts";

export type Versions = Partial<Record<ModelName, string>>;
/** `adaptation`: the number of the adaptation that it was opened with. */
type Child = { worker: Worker<FromDetector, ToDetector>; opened: Promise<Versions>; adaptation: number | undefined };

export class DetectorState {
  child: Child | undefined;
  /** Versions of the models that the last process has opened, and the adaptation that they belong to. */
  versions: { of: Versions; adaptation: number | undefined } | undefined;
  /** Failed starts in a row. */
  failures = 0;
  /** No start before this time. */
  notBefore = 0;
  /** Calls that use the process now. */
  busy = 0;
  /** Bytes of files that are in the process or wait for it. */
  readonly heldBytes = new Semaphore({ name: "bytes of files", permits: HELD_BYTES, mostEach: HELD_BYTES_EACH });
  idle = new AbortController();
  /** Hashes of files that kill the process. */
  readonly deadly = new Set<string>();
  /** Files in the process. One more than one workspace may hold, so that it alone uses `parallel` as well. */
  readonly permits: Semaphore;
  /** A file takes one permit beside others, and all of them to be alone in the process. */
  readonly company: Semaphore;

  /** True: models are used as shipped, and answers have their features. */
  readonly features: boolean;

  constructor({ parallel, features = false }: { parallel: number; features?: boolean }) {
    this.features = features;
    const permits = parallel + 1;
    this.permits = new Semaphore({ name: "files", permits, mostWaitingEach: parallel * QUEUE });
    this.company = Semaphore.unshared("a file has its fair turn before it gets here", { permits });
  }
}

/** The part of a server's context that the detector needs. The command line has as much. */
export type DetectorContext = Pick<Ctx, "config" | "clock" | "log" | "supervisor" | "closing"> & {
  readonly state: { readonly detection: { readonly detector: DetectorState } };
};

const QUEUE = 8; // callers of a workspace that may wait, for each permit
const HELD_BYTES = 384 * MIB; // their base64 text takes as much again
const HELD_BYTES_EACH = 256 * MIB; // of one workspace
const MOST_DEADLY = 10_000;
const OPEN_MS = 60_000;
const STOP_MS = 1_000;
const FIRST_PAUSE_MS = 500;
const LAST_PAUSE_MS = 30_000;
const DIED = Symbol("the detector died");

export type ScoreRequest = {
  workspaceId: string;
  bytes: Uint8Array<ArrayBuffer>;
  hash: string;
  models: readonly ModelName[];
  robustness: boolean;
  heatmap: boolean;
  signal: AbortSignal;
};

/** Answers 429 if the workspace has too many files waiting, before a body is read that could not be scored. */
export const requireQueue = ({ state }: DetectorContext, workspaceId: string) =>
  state.detection.detector.permits.mustHaveRoom(workspaceId);

const full = () =>
  new AppError("no_capacity", "The detector is busy and its queue is full. Try again in a second", {
    retryAfterSeconds: 1,
  });

/** The versions of the models. Starts the process if none has reported them yet. */
export async function versionsOf(ctx: DetectorContext): Promise<Versions> {
  const state = ctx.state.detection.detector;
  if (state.versions && state.versions.adaptation === adaptationFor(ctx, state)) return state.versions.of;
  return await inUse(ctx, state, () => open(ctx, state).opened);
}

export async function score(ctx: DetectorContext, request: ScoreRequest): Promise<Scored> {
  const state = ctx.state.detection.detector;
  return readScores(ctx, await ask(ctx, request, () => `score?${queryOf(request, state)}`));
}

/** A file for the process. */
type FileRequest = Pick<ScoreRequest, "workspaceId" | "bytes" | "hash" | "signal">;

/** The pixels of an image, neither side longer than `side`. */
export const pixelsOf = async (ctx: DetectorContext, request: FileRequest, side: number): Promise<PixelImage> =>
  readPixels(ctx, await ask(ctx, request, () => `pixels?side=${side}`), side);

/** `path` is called when the process is open. */
async function ask(ctx: DetectorContext, request: FileRequest, path: () => string): Promise<Answer> {
  const state = ctx.state.detection.detector;
  if (state.deadly.has(request.hash)) throw deadly();
  const release = state.heldBytes.tryAcquire(request.workspaceId, request.bytes.length);
  if (!release) throw full();
  try {
    return await inTurn(ctx, state, request, path);
  } finally {
    release();
  }
}

async function inTurn(ctx: DetectorContext, state: DetectorState, request: FileRequest, path: () => string) {
  const timeout = { clock: ctx.clock, ms: ctx.config.detect.wait_ms };
  const release = await state.permits.acquire(request, { timeout });
  if (!release) throw full();
  try {
    return await inUse(ctx, state, async () => {
      const first = await inCompany(state, 1, () => askOnce(ctx, state, request, path));
      if (first !== DIED) return first;
      const second = await inCompany(state, state.company.permits, () => askOnce(ctx, state, request, path));
      if (second !== DIED) return second;
      if (state.deadly.size >= MOST_DEADLY) state.deadly.clear();
      state.deadly.add(request.hash);
      throw deadly();
    });
  } finally {
    release();
  }
}

/** In order of arrival, so a file that is retried alone is not overtaken for ever. */
export async function inCompany<T>(state: DetectorState, permits: number, work: () => Promise<T>): Promise<T> {
  const release = await state.company.acquire({ workspaceId: "" }, { permits });
  try {
    return await work();
  } finally {
    release?.();
  }
}

const deadly = () => new AppError("invalid_image", "The file cannot be decoded: the decoder crashed on it twice");

/** After the last call the process is stopped, unless another call comes within `detect.idle_seconds`. */
async function inUse<T>(ctx: DetectorContext, state: DetectorState, work: () => Promise<T>): Promise<T> {
  state.busy++;
  state.idle.abort();
  try {
    return await work();
  } finally {
    if (--state.busy === 0) void endWhenIdle(ctx, state);
  }
}

async function endWhenIdle(ctx: DetectorContext, state: DetectorState) {
  const idle = new AbortController();
  state.idle = idle;
  const signal = AbortSignal.any([idle.signal, ctx.closing]);
  await ctx.clock.sleep(ctx.config.detect.idle_seconds * 1000, signal);
  if (signal.aborted) return;
  const { child } = state;
  state.child = undefined;
  await child?.worker.stop("idle");
}

const adaptationFor = ({ config }: DetectorContext, { features }: DetectorState) =>
  features ? undefined : currentNumber(config.data_dir);

function open(ctx: DetectorContext, state: DetectorState): Child {
  const adaptation = adaptationFor(ctx, state);
  if (state.child?.adaptation === adaptation && state.child) return state.child;
  void state.child?.worker.stop("the adaptation has changed"); // files in it are scored again
  state.child = undefined;
  const waitMs = state.notBefore - ctx.clock.steady();
  if (waitMs > 0) throw unavailable("it failed to start", waitMs);
  const opened = Promise.withResolvers<Versions>();
  opened.promise.catch(() => {}); // callers that wait for it get the error
  let isOpen = false;
  const onExit = (exit: Exit) => {
    if (state.child === child) state.child = undefined;
    opened.reject(unavailable(exit.message));
    if (isOpen || exit.kind === "stopped") return;
    state.failures++;
    state.notBefore = ctx.clock.steady() + Math.min(FIRST_PAUSE_MS * 2 ** (state.failures - 1), LAST_PAUSE_MS);
  };
  const { data_dir, detect } = ctx.config;
  const paths = {
    ...(detect.models_dir === "" ? {} : { models_dir: resolve(detect.models_dir) }),
    ...(detect.trust_list === "" ? {} : { trust_list: resolve(detect.trust_list) }),
    ...(adaptation === undefined ? {} : { adaptation: resolve(pathOf(data_dir, adaptation)) }),
  };
  const extras = state.features ? { features: true } : {};
  const grants = { reads: Object.values(paths) };
  const worker = spawn(ctx, grants, onExit, (message) => {
    if (message.type !== "opened") return;
    isOpen = true;
    state.failures = 0;
    state.versions = { of: message.versions, adaptation };
    opened.resolve(message.versions);
  });
  const child: Child = { worker, opened: opened.promise, adaptation };
  state.child = child;
  const threads = detect.threads || availableParallelism();
  worker.ready.then(
    () => worker.send({ type: "open", data_dir, threads, max_pixels: detect.max_pixels, ...paths, ...extras }),
    () => {}, // onExit reports its end
  );
  void stopUnlessOpen(ctx, child);
  return child;
}

type OnExit = (exit: Exit) => void;

function spawn(ctx: DetectorContext, grants: Grants, onExit: OnExit, onMessage: (message: FromDetector) => void) {
  const options = { kind: "detector", incoming: FromDetector, grants, graceMs: STOP_MS, onMessage, onExit };
  try {
    return ctx.supervisor.spawn<FromDetector, ToDetector>(options);
  } catch (error) {
    throw unavailable((error as Error).message);
  }
}

async function stopUnlessOpen(ctx: DetectorContext, { worker, opened }: Child) {
  const over = new AbortController();
  const settled = opened.then(
    () => over.abort(),
    () => over.abort(),
  );
  await Promise.race([settled, ctx.clock.sleep(OPEN_MS, over.signal)]);
  if (!over.signal.aborted) await worker.stop(`it did not open within ${OPEN_MS} ms`);
}

const unavailable = (why: string, waitMs = FIRST_PAUSE_MS) =>
  new AppError("detector_unavailable", `The detector is not available: ${why}. Try again later`, {
    retryAfterSeconds: waitMs / 1000,
  });

async function askOnce(
  ctx: DetectorContext,
  state: DetectorState,
  request: FileRequest,
  path: () => string,
): Promise<Answer | typeof DIED> {
  request.signal.throwIfAborted();
  const child = open(ctx, state);
  await child.opened;
  const late = AbortSignal.timeout(ctx.config.detect.timeout_ms);
  try {
    const response = await fetch(`http://detector/${path()}`, {
      method: "POST",
      body: request.bytes,
      unix: child.worker.socketPath,
      signal: AbortSignal.any([request.signal, late]),
    });
    return { status: response.status, headers: response.headers, bytes: await response.bytes() };
  } catch {
    request.signal.throwIfAborted();
    if (state.child === child) state.child = undefined; // no further request goes there
    void child.worker.stop("no answer"); // the next request starts another
    return DIED;
  }
}

function queryOf({ models, robustness, heatmap }: ScoreRequest, { features }: DetectorState): URLSearchParams {
  const flags = Object.entries({ robustness, heatmap, features }).map(([name, asked]) => [name, asked ? "1" : "0"]);
  return new URLSearchParams([["models", models.join()], ...flags]);
}
