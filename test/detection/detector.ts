/** The detector's worker as the server starts it, over its socket. */
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { systemClock } from "../../src/platform/clock.ts";
import { createLog } from "../../src/platform/log.ts";
import { createSupervisor } from "../../src/platform/workers/supervisor.ts";
import type { Worker } from "../../src/platform/workers/types.ts";
import { FromDetector, type ModelName, Refused, Scored, type ToDetector } from "../../src/workers/protocol_detector.ts";
import { tempDir } from "../harness.ts";
import { confinedIn } from "../sandbox/confined.ts";

export type Answer = { status: number; scored?: Scored; refused?: Refused };
type ScoreOptions = { models?: readonly ModelName[]; robustness?: boolean; heatmap?: boolean; signal?: AbortSignal };
export type Options = {
  modelsDir?: string;
  trustList?: string;
  threads?: number;
  maxPixels?: number;
  program?: string[];
};

const IMAGE_MODELS: readonly ModelName[] = ["detector_v0", "detector_v1"];
const SOURCE = [process.execPath, resolve(import.meta.dir, "../../src/main.ts")];

/** Whatever ends the worker, the next question starts another. */
export class Detector {
  readonly dir = tempDir();
  starts = 0;
  readonly exits: string[] = [];
  versions: Partial<Record<ModelName, string>> = {};
  readonly #options: Options;
  readonly #supervisor;
  #worker: Promise<Worker<FromDetector, ToDetector>> | undefined;

  constructor(options: Options = {}) {
    this.#options = options;
    this.#supervisor = createSupervisor({
      log: createLog({ level: "error", write: () => {} }),
      clock: systemClock,
      socketDir: join(this.dir, "run"),
      env: { PATH: process.env["PATH"], HOME: this.dir },
      program: options.program ?? SOURCE,
      ...(options.program ? {} : { confine: confinedIn(this.dir) }), // an executable has its own libraries to extract
      silence_ms: 60_000,
      stop_grace_ms: 5_000,
      stderr_tail_bytes: 8_192,
    });
  }

  async close() {
    await this.#supervisor.stopAll("test over");
    rmSync(this.dir, { recursive: true, force: true });
  }

  async open(): Promise<Worker<FromDetector, ToDetector>> {
    this.#worker ??= this.#start();
    return await this.#worker;
  }

  async score(
    bytes: Uint8Array,
    { models = IMAGE_MODELS, robustness = false, heatmap = false, signal }: ScoreOptions = {},
  ): Promise<Answer> {
    const query = `models=${models.join(",")}${robustness ? "&robustness=1" : ""}${heatmap ? "&heatmap=1" : ""}`;
    const init = { method: "POST", body: bytes as BodyInit, signal: signal ?? null };
    const answer = await this.ask(`/score?${query}`, init);
    const body: unknown = await answer.json();
    if (answer.status === 200) return { status: 200, scored: Scored.parse(body) };
    return answer.status === 422 ? { status: 422, refused: Refused.parse(body) } : { status: answer.status };
  }

  async ask(path: string, init: RequestInit = {}): Promise<Response> {
    const { socketPath } = await this.open();
    return await fetch(`http://worker${path}`, { ...init, unix: socketPath } as RequestInit);
  }

  async stats(): Promise<{ runs: number; parts: number; waiting: number; held_bytes: number; rss_bytes: number }> {
    return (await (await this.ask("/stats")).json()) as never;
  }

  /** The most that the process has ever held. */
  async peakBytes(): Promise<number> {
    const { pid } = await this.open();
    const status = await Bun.file(`/proc/${pid}/status`).text();
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) * 1_024;
  }

  async #start() {
    const { modelsDir, trustList, threads = 2, maxPixels = 100e6 } = this.#options;
    const opened = Promise.withResolvers<void>();
    const given = {
      ...(modelsDir === undefined ? {} : { models_dir: modelsDir }),
      ...(trustList === undefined ? {} : { trust_list: trustList }),
    };
    const worker = this.#supervisor.spawn<FromDetector, ToDetector>({
      kind: "detector",
      incoming: FromDetector,
      grants: { reads: Object.values(given) },
      onMessage: (message) => {
        if (message.type !== "opened") return;
        this.versions = message.versions;
        opened.resolve();
      },
      onExit: ({ message, tail }) => {
        this.exits.push(`${message}\n${tail}`);
        this.#worker = undefined;
        opened.reject(new Error(`${message}\n${tail}`));
      },
    });
    this.starts++;
    await worker.ready;
    worker.send({ type: "open", data_dir: this.dir, threads, max_pixels: maxPixels, ...given });
    await opened.promise;
    return worker;
  }
}
