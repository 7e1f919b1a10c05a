/**
 * Gives out reward processes, each to one owner and never again. After use one spare of the language stays ready for a
 * while, locked in and without any code, so that the next owner does not wait for it to start.
 */
import { AppError } from "../../lib/errors.ts";
import type { Language } from "../../lib/rewards/contract.ts";
import { type Level, missingLayers } from "../../lib/rewards/levels.ts";
import { rewardSpawner } from "./jail.ts";
import { openRewardProcess } from "./process.ts";
import { OWN_BYTES, type RewardCommand, type SpawnedReward } from "./spawn.ts";
import type { RewardPool, RewardProcess } from "./types.ts";

type Engine = RewardCommand["language"];
export type PoolSettings = { require: Level; memory_mib: number; processes: number; spare_seconds: number };
type Options = {
  settings: PoolSettings;
  dataDir: string;
  /** How a process is started; tests may start it otherwise. */
  spawn?: (command: RewardCommand) => SpawnedReward | Promise<SpawnedReward>;
};

const SPARE_DELAY_MS = 2_000; // the owner's own work comes first

export function createRewardPool({ settings, dataDir, spawn = rewardSpawner(dataDir).spawn }: Options): RewardPool {
  const live = new Set<RewardProcess>();
  const spares = new Map<Engine, { process: Promise<RewardProcess>; expire: ReturnType<typeof setTimeout> }>();
  const soon = new Map<Engine, ReturnType<typeof setTimeout>>();
  const waiting: (() => void)[] = [];
  let taken = 0;
  let closed = false;

  const start = async (language: Engine): Promise<RewardProcess> => {
    const spawned = await spawn({ language, memoryMib: settings.memory_mib });
    const process = await openRewardProcess(spawned, OWN_BYTES + settings.memory_mib * 2 ** 20);
    live.add(process);
    void process.ended.then(() => live.delete(process));
    if (closed) await process.close();
    return process;
  };

  const dropSpare = (language: Engine) => {
    const spare = spares.get(language);
    spares.delete(language);
    clearTimeout(spare?.expire);
    return spare?.process;
  };

  const keepSpare = (language: Engine) => {
    if (settings.spare_seconds === 0 || closed) return;
    clearTimeout(soon.get(language));
    const begin = () => {
      if (closed || spares.has(language)) return;
      const process = start(language);
      process.catch(() => {
        if (spares.get(language)?.process === process) dropSpare(language); // by now it may be another
      });
      const close = (spare: RewardProcess) => spare.close();
      const expire = setTimeout(() => void dropSpare(language)?.then(close, () => {}), settings.spare_seconds * 1000);
      expire.unref();
      spares.set(language, { process, expire });
    };
    const timer = setTimeout(begin, SPARE_DELAY_MS);
    timer.unref();
    soon.set(language, timer);
  };

  /** A spare that died while it waited is no reason to fail. */
  const fresh = async (language: Engine): Promise<RewardProcess> => {
    const spare = await dropSpare(language)?.catch(() => undefined);
    if (spare && live.has(spare)) return spare;
    return start(language);
  };

  const freeSlot = async (signal: AbortSignal | undefined) => {
    if (taken < settings.processes) return void taken++;
    const turn = Promise.withResolvers<void>();
    waiting.push(turn.resolve);
    const leave = () => {
      waiting.splice(waiting.indexOf(turn.resolve) >>> 0, 1);
      turn.reject(signal?.reason);
    };
    signal?.addEventListener("abort", leave, { once: true });
    await turn.promise.finally(() => signal?.removeEventListener("abort", leave)); // the slot was handed over
  };
  const giveBack = () => {
    const next = waiting.shift();
    if (next) next();
    else taken--;
  };

  return {
    async take(language: Language, signal) {
      signal?.throwIfAborted();
      await freeSlot(signal);
      try {
        if (closed) throw new AppError("shutting_down", "The server is stopping");
        const engine = language === "python" ? "python" : "javascript";
        const process = await fresh(engine).catch((error) => {
          throw new AppError("sandbox_unavailable", `Reward code cannot run here: ${(error as Error).message}`);
        });
        const missing = missingLayers(settings.require, process.layers);
        if (missing.length > 0) {
          await process.close();
          throw new AppError(
            "sandbox_unavailable",
            `sandbox.require = "${settings.require}" asks for ${missing.join(", ")}, which this host does not give; ` +
              "run `verk doctor` for what to change, or lower the setting",
          );
        }
        keepSpare(engine);
        void process.ended.then(giveBack);
        return process;
      } catch (error) {
        giveBack();
        throw error;
      }
    },
    async close() {
      closed = true;
      for (const timer of soon.values()) clearTimeout(timer);
      for (const language of [...spares.keys()]) void dropSpare(language)?.catch(() => {});
      await Promise.all([...live].map((process) => process.close()));
    },
  };
}
