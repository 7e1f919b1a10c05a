/** The lanes and the requests that wait for one. */

import { ClientLeft } from "../../lib/net/client_left.ts";
import { compiled } from "../../native/bundle/embedded.ts";
import { isLonger, join, joinResults, type Part, portionsOf, stretches, takeBatch } from "./batch.ts";
import { CROP, MAX_CROPS } from "./image/views.ts";
import type { FromLane, Heard, Input, LaneModel, Network, Results, ToLane } from "./messages.ts";
import { lose, type Models, networksOf } from "./models.ts";
import { Refusal } from "./refusal.ts";

/** In the executable the thread is a second entry point (scripts/build.ts). */
const THREAD = compiled ? "/$bunfs/root/workers/detector/lane.js" : new URL("./lane.ts", import.meta.url);
const BATCH_LIMIT = MAX_CROPS; // combines small images; an image with this many crops runs alone and is not copied
const CROP_BYTES = CROP * CROP * 3;
const MOST_ROOMS = 8;

export type LaneOptions = {
  dataDir: string;
  threads: number;
  models: Models;
  runLimitMs: number;
  /** A lane that hangs or breaks cannot be repaired: the process must end. */
  onFatal: (error: Error) => void;
};
export type Lanes = {
  /** Returns a buffer for this many crops, to be filled and passed to `score`. Its content is undefined. */
  room: (crops: number) => Uint8Array<ArrayBuffer>;
  score: (part: Part, signal: AbortSignal) => Promise<Results>;
  readAudio: (bytes: Uint8Array<ArrayBuffer>, signal: AbortSignal) => Promise<Heard>;
  readonly stats: { runs: number; parts: number; waiting: number };
  close: () => void;
};

/** `signal`: of the request; its parts share it. */
type Waiting<T, W> = { signal: AbortSignal; resolve: (result: T) => void; reject: (error: Error) => void } & W;
type Scoring = Waiting<Results, Part>;
type Hearing = Waiting<Heard, { bytes: Uint8Array<ArrayBuffer> }>;
type WaitOptions<W> = { signal: AbortSignal; overtakes: (other: W) => boolean };
type Lane = { thread: Worker; busy: boolean; answer: (message: FromLane) => void };

/** Resolves when every lane has tried every model. Models that failed on a lane are among the errors. */
export async function openLanes(options: LaneOptions): Promise<Lanes> {
  const { models, dataDir, threads, onFatal } = options;
  const networks: LaneModel[] = networksOf(models);
  const lanes = await Promise.all(
    Array.from({ length: threads }, async () => {
      const lane = startLane(onFatal);
      const opened = await ask(lane, { type: "open", dataDir, models: networks });
      if (opened.type !== "opened") throw new Error(opened.type === "unopened" ? opened.error : "A lane did not open");
      for (const [name, error] of Object.entries(opened.errors)) lose(models, name as Network, error);
      return lane;
    }),
  );
  return new Pool(lanes, options);
}

function startLane(onFatal: (error: Error) => void): Lane {
  const thread = new Worker(THREAD);
  const lane: Lane = { thread, busy: false, answer: () => {} };
  thread.onerror = (event) => onFatal(new Error(`A lane failed: ${event.message}`));
  thread.onmessage = ({ data }: MessageEvent<FromLane>) => lane.answer(data);
  return lane;
}

function ask(lane: Lane, message: ToLane, transfer: ArrayBuffer[] = []): Promise<FromLane> {
  return new Promise((resolve) => {
    lane.answer = resolve;
    lane.thread.postMessage(message, transfer);
  });
}

class Pool implements Lanes {
  readonly #lanes: readonly Lane[];
  readonly #options: LaneOptions;
  readonly #scoring: Scoring[] = [];
  readonly #hearing: Hearing[] = [];
  readonly #counts = { runs: 0, parts: 0 };
  /** Reused buffers of `MAX_CROPS` each: new ones would be cleared and paged in for every image. */
  readonly #rooms: Uint8Array<ArrayBuffer>[] = [];

  constructor(lanes: readonly Lane[], options: LaneOptions) {
    this.#lanes = lanes;
    this.#options = options;
  }

  get stats() {
    return { ...this.#counts, waiting: this.#scoring.length + this.#hearing.length };
  }

  room(crops: number): Uint8Array<ArrayBuffer> {
    return (crops === MAX_CROPS && this.#rooms.pop()) || new Uint8Array(crops * CROP_BYTES);
  }

  score(part: Part, signal: AbortSignal): Promise<Results> {
    this.#counts.parts++;
    // The whole image comes later than its crops. It goes before their shorter runs, but overtakes no other request.
    const overtakes = (other: Scoring) => other.signal === signal && isLonger(part, other);
    return this.#wait(this.#scoring, part, { signal, overtakes });
  }

  readAudio(bytes: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<Heard> {
    return this.#wait(this.#hearing, { bytes }, { signal, overtakes: () => false });
  }

  close() {
    for (const { thread } of this.#lanes) thread.terminate();
  }

  #wait<T, W>(queue: Waiting<T, W>[], what: W, { signal, overtakes }: WaitOptions<Waiting<T, W>>): Promise<T> {
    if (signal.aborted) return Promise.reject(new ClientLeft());
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const leave = () => {
      const others = queue.filter((waiting) => waiting.signal !== signal); // its portions leave too
      queue.splice(0, queue.length, ...others);
      reject(new ClientLeft());
    };
    signal.addEventListener("abort", leave, { once: true });
    const at = queue.findIndex(overtakes);
    queue.splice(at < 0 ? queue.length : at, 0, { ...what, signal, resolve, reject });
    this.#pump();
    return promise.finally(() => signal.removeEventListener("abort", leave));
  }

  #pump() {
    const idle = this.#lanes.filter(({ busy }) => !busy);
    for (const [i, lane] of idle.entries()) {
      const hearing = this.#hearing.shift();
      if (hearing) void this.#readAudio(lane, hearing);
      else if (this.#scoring.length > 0) void this.#run(lane, this.#take(idle.length - i));
    }
  }

  /** With fewer requests than idle lanes, each is divided. Otherwise it is not, which costs fewer messages and copies. */
  #take(idle: number): Scoring[] {
    const queue = this.#scoring;
    if (queue.length < idle) queue.push(...queue.splice(0).flatMap((part) => this.#divide(part)));
    return takeBatch(queue, BATCH_LIMIT);
  }

  #divide(part: Scoring): Scoring[] {
    const portions = part.alone ? [] : portionsOf(part);
    if (portions.length < 2) return [part];
    const results: Results[] = [];
    let missing = portions.length;
    return portions.map((portion, i) => ({
      ...portion,
      signal: part.signal,
      reject: part.reject,
      resolve: (result) => {
        results[i] = result;
        if (--missing > 0) return;
        this.#keep(part.input);
        part.resolve(joinResults(part.models, results));
      },
    }));
  }

  async #run(lane: Lane, batch: readonly Scoring[]) {
    this.#counts.runs++;
    const input = join(batch);
    const count = batch.reduce((sum, part) => sum + part.count, 0);
    const models = batch[0]!.models;
    const answer = await this.#occupy(lane, { type: "run", models, input, count }, input.buffer);
    if (answer.type !== "ran") {
      const error = new Error(answer.type === "failed" ? answer.error : "A lane sent an unexpected answer");
      for (const { reject } of batch) reject(error);
      return;
    }
    this.#keep(answer.input);
    for (const [i, [from, to]] of stretches(batch).entries()) batch[i]!.resolve(cut(answer.results, from, to));
  }

  #keep(input: Input) {
    if (input instanceof Uint8Array && input.length === MAX_CROPS * CROP_BYTES && this.#rooms.length < MOST_ROOMS)
      this.#rooms.push(input);
  }

  async #readAudio(lane: Lane, { bytes, resolve, reject }: Hearing) {
    const answer = await this.#occupy(lane, { type: "read_audio", bytes }, bytes.buffer);
    if (answer.type === "heard") resolve(answer.heard);
    else if (answer.type === "refused") reject(new Refusal(answer.code, answer.error));
    else reject(new Error(answer.type === "failed" ? answer.error : "A lane sent an unexpected answer"));
  }

  async #occupy(lane: Lane, message: ToLane, buffer: ArrayBuffer): Promise<FromLane> {
    const { runLimitMs, onFatal } = this.#options;
    lane.busy = true;
    const late = setTimeout(() => onFatal(new Error(`A lane took longer than ${runLimitMs} ms`)), runLimitMs);
    try {
      return await ask(lane, message, [buffer]);
    } finally {
      clearTimeout(late);
      lane.busy = false;
      queueMicrotask(() => this.#pump());
    }
  }
}

function cut(results: Results, from: number, to: number): Results {
  const entries = Object.entries(results).map(([name, result]) => {
    if ("error" in result) return [name, result];
    const width = (result.features?.length ?? 0) / result.logits.length;
    const features = result.features?.subarray(from * width, to * width);
    return [name, { ...result, logits: result.logits.subarray(from, to), ...(features ? { features } : {}) }];
  });
  return Object.fromEntries(entries) as Results;
}
