/**
 * The server's side of one reward process. It trusts nothing: every frame has a size limit, a checked shape and the
 * nonce of the open request. A frame that does not fit, or comes too late, ends the process.
 */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import {
  type Acted,
  FromReward,
  type Layer,
  MAP_MS,
  MAP_ROWS,
  MAX_FRAME_BYTES,
  type Mapped,
  type Outcome,
  type ToReward,
} from "../../lib/rewards/contract.ts";
import { createFrames, encodeFrame, encodeLongFrame } from "../../lib/rewards/frames.ts";
import { MINUTE_MS } from "../../lib/units.ts";
import { pageBytes } from "../../native/platform/index.ts";
import type { SpawnedReward } from "./spawn.ts";
import type { Called, CallLimits, Loaded, Printed, RewardEnd, RewardProcess } from "./types.ts";

const START_MS = MINUTE_MS;
const WATCH_MS = 50;
const NOTHING_PRINTED: Printed = { stdout: "", stdoutBytes: 0 };

type Answer = Exclude<FromReward, { op: "ready" } | { op: "violated" }>;
type To<Op extends ToReward["op"]> = Extract<ToReward, { op: Op }>;
type Request = { nonce: string; onFrame: (frame: Answer) => void; settle: (result: unknown) => void };

/** Resolves when the process reports that it is ready; rejects if it ends before. */
export function openRewardProcess(spawned: SpawnedReward, maxRssBytes: number): Promise<RewardProcess> {
  return new Process(spawned, maxRssBytes).ready;
}

class Process implements RewardProcess {
  readonly pid: number;
  readonly ended: Promise<RewardEnd>;
  readonly ready: Promise<RewardProcess>;
  layers: readonly Layer[] = [];

  readonly #spawned: SpawnedReward;
  readonly #ready = Promise.withResolvers<RewardProcess>();
  #isReady = false;
  #open: Request | undefined;
  #end: RewardEnd | undefined; // the first cause wins
  #deadline: ReturnType<typeof setTimeout> | undefined;

  constructor(spawned: SpawnedReward, maxRssBytes: number) {
    this.#spawned = spawned;
    this.pid = spawned.pid;
    this.ready = this.#ready.promise;
    this.#arm(START_MS, `was not ready within ${START_MS / 1000} s`);
    const watch = spawned.jailed ? undefined : setInterval(() => this.#watch(maxRssBytes), WATCH_MS);
    this.ended = Promise.all([this.#read(), spawned.exited]).then(([, known]) => {
      clearTimeout(this.#deadline);
      clearInterval(watch);
      const end = this.#end ?? known ?? { kind: "crashed", message: this.#exitMessage() };
      this.#end = end;
      this.#ready.reject(new Error(`The reward process ${end.message}`));
      this.#open?.settle(undefined);
      return end;
    });
    this.ready.catch(() => {});
  }

  async load(...[code, timeoutMs]: Parameters<RewardProcess["load"]>): Promise<Loaded> {
    const frame = async (nonce: string) => encodeFrame({ op: "load", ...code, nonce } satisfies To<"load">);
    const answered = await this.#send(frame, (settle) => {
      this.#arm(timeoutMs, `took longer than ${Math.round(timeoutMs)} ms to load`);
      return (frame) => {
        if (frame.op === "loaded") {
          const { entrypoints, environments } = frame;
          settle({ ok: true, entrypoints, environments, ...printed(frame) });
        } else if (frame.op === "rejected") settle({ ok: false, error: frame.error, ...printed(frame) });
        else this.#endBecause(`answered a load with "${frame.op}"`);
      };
    });
    if (answered) return answered as Loaded;
    const { kind, message } = await this.ended;
    const error = {
      kind: kind === "closed" ? "crashed" : kind,
      message: `The code ${message}`,
      line: null,
      column: null,
    };
    return { ok: false, error, ...NOTHING_PRINTED };
  }

  async call(...[entry, samples, limits]: Parameters<RewardProcess["call"]>): Promise<Called> {
    const outcomes: Outcome[] = [];
    let whole = entry.form === "batch" && limits.wholeMs > 0;
    const again = () => this.#arm(...allowance(limits, whole));
    const request = { op: "call", entry: entry.name, whole } satisfies Omit<To<"call">, "nonce" | "samples">;
    const frame = (nonce: string) => encodeLongFrame({ ...request, nonce }, "samples", samples);
    const answered = await this.#send(frame, (settle) => {
      again();
      return (frame) => {
        if (frame.op === "alone" && whole) {
          whole = false;
          again();
        } else if (frame.op === "outcomes" && frame.from === outcomes.length) {
          outcomes.push(...frame.outcomes);
          if (outcomes.length > samples.length) this.#endBecause("answered for more samples than there are");
          else again();
        } else if (frame.op === "done" && outcomes.length === samples.length) settle(printed(frame));
        else this.#endBecause(`answered a call with "${frame.op}" out of order`);
      };
    });
    if (answered) return { outcomes, end: null, ...(answered as Printed) };
    return { outcomes: outcomes.slice(0, samples.length), end: await this.ended, ...NOTHING_PRINTED };
  }

  async map(...[rows, rowMs, each = MAP_ROWS]: Parameters<RewardProcess["map"]>): ReturnType<RewardProcess["map"]> {
    const results: Mapped[] = [];
    const again = () => this.#arm(rowMs + MAP_MS, `took longer than ${Math.round(rowMs)} ms for one row`);
    const request = { op: "map", each } satisfies Omit<To<"map">, "nonce" | "rows">;
    const frame = (nonce: string) => encodeLongFrame({ ...request, nonce }, "rows", rows);
    const answered = await this.#send(frame, (settle) => {
      again();
      return (frame) => {
        if (frame.op === "mapped" && frame.from === results.length) {
          results.push(...frame.results);
          if (results.length > rows.length) this.#endBecause("answered for more rows than there are");
          else again();
        } else if (frame.op === "done" && results.length === rows.length) settle(true);
        else this.#endBecause(`answered a map with "${frame.op}" out of order`);
      };
    });
    return { results: results.slice(0, rows.length), end: answered ? null : await this.ended };
  }

  async act(...[acts, actMs]: Parameters<RewardProcess["act"]>): ReturnType<RewardProcess["act"]> {
    const results: Acted[] = [];
    const again = () => this.#arm(actMs, `took longer than ${Math.round(actMs)} ms for one call`);
    const frame = (nonce: string) => encodeLongFrame({ op: "act", nonce }, "acts", acts);
    const answered = await this.#send(frame, (settle) => {
      again();
      return (frame) => {
        if (frame.op === "acted" && frame.from === results.length) {
          results.push(...frame.results);
          if (results.length > acts.length) this.#endBecause("answered for more acts than there are");
          else again();
        } else if (frame.op === "done" && results.length === acts.length) settle(printed(frame));
        else this.#endBecause(`answered an act with "${frame.op}" out of order`);
      };
    });
    const { stdout } = (answered ?? NOTHING_PRINTED) as Printed;
    return { results: results.slice(0, acts.length), end: answered ? null : await this.ended, stdout };
  }

  async close() {
    this.#finish({ kind: "closed", message: "was closed" });
    await this.ended;
  }

  /** The result of the request; undefined if the process ended first. */
  async #send(
    encoded: (nonce: string) => Promise<Buffer>,
    begin: (settle: (result: unknown) => void) => Request["onFrame"],
  ): Promise<unknown> {
    if (this.#open) throw new Error("A reward process takes one request at a time");
    if (this.#end) return undefined;
    const answered = Promise.withResolvers<unknown>();
    const nonce = randomBytes(16).toString("hex");
    const early = () => this.#endBecause("answered before it was asked");
    this.#open = { nonce, onFrame: early, settle: answered.resolve };
    const frame = await encoded(nonce);
    if (!this.#end) {
      this.#open = { nonce, onFrame: begin(answered.resolve), settle: answered.resolve };
      this.#spawned.write(frame);
    }
    const result = await answered.promise;
    this.#open = undefined;
    clearTimeout(this.#deadline);
    return result;
  }

  async #read() {
    const frames = createFrames(MAX_FRAME_BYTES);
    try {
      for await (const chunk of this.#spawned.output) {
        if (this.#end) continue; // read to the end, but ignored
        for (const frame of frames.push(chunk)) this.#take(frame);
      }
    } catch (error) {
      this.#endBecause(`sent an invalid frame (${(error as Error).message})`);
    }
  }

  #take(raw: unknown) {
    if (this.#end) return;
    const parsed = FromReward.safeParse(raw);
    if (!parsed.success) return this.#endBecause("sent a frame outside its protocol");
    const frame = parsed.data;
    if (frame.op === "violated") return this.#endBecause(`was stopped: ${frame.message}`);
    if (frame.op === "ready") {
      if (this.#isReady) return this.#endBecause("reported ready twice");
      this.#isReady = true;
      clearTimeout(this.#deadline);
      this.layers = this.#spawned.jailed ? [...frame.layers, "namespaces"] : frame.layers;
      return this.#ready.resolve(this);
    }
    if (!this.#open || frame.nonce !== this.#open.nonce) return this.#endBecause("answered without a request");
    this.#open.onFrame(frame);
  }

  #arm(ms: number, message: string) {
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => this.#finish({ kind: "timeout", message }), Math.max(0, ms));
  }

  /** A second line of defence: the process limits itself too. */
  #watch(maxRssBytes: number) {
    try {
      const pages = Number(readFileSync(`/proc/${this.pid}/statm`, "utf8").split(" ")[1]);
      if (pages * pageBytes() > maxRssBytes) this.#finish({ kind: "memory", message: "used too much memory" });
    } catch {
      // the process has ended
    }
  }

  #endBecause(message: string) {
    this.#finish({ kind: "crashed", message });
  }

  #finish(end: RewardEnd) {
    this.#end ??= end;
    this.#spawned.kill();
  }

  #exitMessage() {
    const output = this.#spawned.lastOutput();
    return output === "" ? "ended without any output" : `ended: ${output}`;
  }
}

const printed = ({ stdout, stdout_bytes }: { stdout: string; stdout_bytes: number }): Printed => ({
  stdout,
  stdoutBytes: stdout_bytes,
});

function allowance({ sampleMs, wholeMs, until }: CallLimits, whole: boolean): [ms: number, message: string] {
  const allowedMs = whole ? wholeMs : sampleMs;
  const left = until - performance.now();
  if (left < allowedMs) return [left, "was still running when the time for the batch ran out"];
  return [allowedMs, `took longer than ${Math.round(allowedMs)} ms ${whole ? "for the batch" : "for one sample"}`];
}
