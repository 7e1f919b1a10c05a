/**
 * Starts reward processes. Each has one owner and is never used again. After a take, one spare process of the language
 * stays ready for a while, confined and without any code, so that the next owner does not wait for a start.
 * The number of processes is limited by the callers' permits (`ctx.state.rewards.processes`), not here.
 */
import { AppError } from "../../lib/errors.ts";
import type { Language } from "../../lib/rewards/contract.ts";
import { type Level, missingLayers } from "../../lib/rewards/levels.ts";
import { MIB, SECOND_MS } from "../../lib/units.ts";
import { rewardSpawner } from "./jail.ts";
import { openRewardProcess } from "./process.ts";
import { OWN_BYTES, type RewardCommand, type SpawnedReward } from "./spawn.ts";
import type { RewardPool, RewardProcess } from "./types.ts";

type Engine = RewardCommand["language"];
type Timer = ReturnType<typeof setTimeout>;
export type PoolSettings = { require: Level; memory_mib: number; spare_seconds: number };
type Options = {
  settings: PoolSettings;
  dataDir: string;
  /** Starts a process; tests replace it. */
  spawn?: (command: RewardCommand) => SpawnedReward | Promise<SpawnedReward>;
};

const SPARE_DELAY_MS = 2 * SECOND_MS; // the owner's own work comes first

export const createRewardPool = (options: Options): RewardPool => new Pool(options);

class Pool implements RewardPool {
  readonly #settings: PoolSettings;
  readonly #spawn: NonNullable<Options["spawn"]>;
  readonly #live = new Set<RewardProcess>();
  readonly #spares = new Map<Engine, { process: Promise<RewardProcess>; expire: Timer }>();
  /** Spares that are about to start. */
  readonly #timers = new Map<Engine, Timer>();
  #isClosed = false;

  constructor({ settings, dataDir, spawn = rewardSpawner(dataDir).spawn }: Options) {
    this.#settings = settings;
    this.#spawn = spawn;
  }

  async take(language: Language, signal?: AbortSignal): Promise<RewardProcess> {
    signal?.throwIfAborted();
    if (this.#isClosed) throw new AppError("shutting_down", "The server is shutting down");
    const engine = language === "python" ? "python" : "javascript";
    const process = await this.#spareOrNew(engine).catch((error) => {
      throw new AppError("sandbox_unavailable", `Reward code cannot run here: ${(error as Error).message}`);
    });
    await this.#requireLayers(process);
    this.#planSpare(engine);
    return process;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    for (const engine of [...this.#spares.keys()]) void this.#dropSpare(engine)?.catch(() => {});
    await Promise.all([...this.#live].map((process) => process.close()));
  }

  async #requireLayers(process: RewardProcess) {
    const { require } = this.#settings;
    const missing = missingLayers(require, process.layers);
    if (missing.length === 0) return;
    await process.close();
    throw new AppError(
      "sandbox_unavailable",
      `sandbox.require = "${require}" needs ${missing.join(", ")}, which this host does not provide: ` +
        "run `verk doctor` for the fix, or lower the setting",
    );
  }

  /** A spare that died while it waited is replaced. */
  async #spareOrNew(engine: Engine): Promise<RewardProcess> {
    const spare = await this.#dropSpare(engine)?.catch(() => undefined);
    return spare && this.#live.has(spare) ? spare : this.#start(engine);
  }

  async #start(language: Engine): Promise<RewardProcess> {
    const { memory_mib: memoryMib } = this.#settings;
    const spawned = await this.#spawn({ language, memoryMib });
    const process = await openRewardProcess(spawned, OWN_BYTES + memoryMib * MIB);
    this.#live.add(process);
    void process.ended.then(() => this.#live.delete(process));
    if (this.#isClosed) await process.close();
    return process;
  }

  #planSpare(engine: Engine) {
    if (this.#settings.spare_seconds === 0 || this.#isClosed) return;
    clearTimeout(this.#timers.get(engine));
    const timer = setTimeout(() => this.#startSpare(engine), SPARE_DELAY_MS);
    timer.unref();
    this.#timers.set(engine, timer);
  }

  #startSpare(engine: Engine) {
    if (this.#isClosed || this.#spares.has(engine)) return;
    const process = this.#start(engine);
    process.catch(() => {
      if (this.#spares.get(engine)?.process === process) this.#dropSpare(engine); // another one may have replaced it
    });
    const closeSpare = () =>
      void this.#dropSpare(engine)?.then(
        (spare) => spare.close(),
        () => {},
      );
    const expire = setTimeout(closeSpare, this.#settings.spare_seconds * SECOND_MS);
    expire.unref();
    this.#spares.set(engine, { process, expire });
  }

  #dropSpare(engine: Engine): Promise<RewardProcess> | undefined {
    const spare = this.#spares.get(engine);
    this.#spares.delete(engine);
    clearTimeout(spare?.expire);
    return spare?.process;
  }
}
