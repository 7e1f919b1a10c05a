/** Checks which sandbox layers hold for workers and for other people's code, by starting each sandbox. */
import { LAYERS, type Language, type Layer } from "../../lib/rewards/contract.ts";
import type { Level } from "../../lib/rewards/levels.ts";
import { missingLayers } from "../../lib/rewards/levels.ts";
import { missingWorkerLayers } from "../../sandbox/confinement/layers.ts";
import { type Support, workerSupport } from "../../sandbox/confinement/support.ts";
import { sessionJail } from "../../sandbox/jail/session_jail.ts";
import { jailSupport } from "../../sandbox/jail/support.ts";
import type { JailSupport } from "../../sandbox/jail/types.ts";
import { rewardSpawner } from "../../sandbox/reward/jail.ts";
import { createRewardPool } from "../../sandbox/reward/pool.ts";
import { type Check, fail, ok, type Scene, type Verdict, warn } from "./check.ts";

export const sandboxChecks: readonly Check[] = [
  { name: "workers", run: workers },
  { name: "reward code", run: rewardCode },
  { name: "sessions", run: sessions },
];

async function rewardCode(scene: Scene): Promise<Verdict> {
  const settings = { ...scene.config.sandbox, require: "language" as const, spare_seconds: 0 }; // what holds, not what should
  const pool = createRewardPool({ settings, dataDir: scene.probeDir });
  const seen: Seen[] = [];
  try {
    for (const language of ["python", "typescript"] as const) {
      const startedAt = performance.now();
      const process = await pool.take(language);
      seen.push({ language, layers: process.layers, ms: performance.now() - startedAt });
      await process.close();
    }
  } catch (error) {
    return fail((error as Error).message, "the message says why; without it no reward function runs");
  } finally {
    await pool.close();
  }
  return layersVerdict(seen, scene.config.sandbox.require, await rewardSpawner(scene.probeDir).support());
}

type Seen = { language: Language; layers: readonly Layer[]; ms: number };

const FIXES: Record<Layer, string> = {
  language: "this build is broken: install it again",
  rlimits: "let the service raise no hard limits: remove LimitDATA and the like from the unit",
  no_new_privs: "use Linux 3.5 or newer",
  seccomp:
    "use a kernel with CONFIG_SECCOMP_FILTER; in a container, let its own filter allow seccomp (--security-opt seccomp=unconfined)",
  landlock: "use Linux 5.13 or newer with landlock among the security modules (kernel parameter lsm=landlock,…)",
  namespaces: "let ordinary users make user namespaces (sysctl user.max_user_namespaces)",
};

/** Pure: what is said of the layers that were seen, and what to do about those that lack. */
export function layersVerdict(
  seen: readonly Seen[],
  require: Scene["config"]["sandbox"]["require"],
  support?: JailSupport,
): Verdict {
  const holding = LAYERS.filter((layer) => seen.every(({ layers }) => layers.includes(layer)));
  const lacking = LAYERS.filter((layer) => !holding.includes(layer));
  const times = seen.map(({ language, ms }) => `${language} in ${Math.round(ms)} ms`).join(", ");
  if (lacking.length === 0) return ok(`${holding.join(", ")}; ${times}`);
  const needed = missingLayers(require, holding);
  const detail = `${holding.join(", ")}; without ${lacking.join(", ")}; ${times}; sandbox.require is ${require}`;
  const fix = (needed.length > 0 ? needed : lacking)
    .map((layer) =>
      layer === "namespaces" && support && !support.ok ? `${support.reason}: ${support.fix}` : FIXES[layer],
    )
    .join("; ");
  if (needed.length === 0) return warn(detail, fix);
  return fail(`${detail}: no reward function runs`, `${fix}; or lower sandbox.require`);
}

/** Processes that parse what strangers sent: images, model files, archives, rows of outside sources. */
function workers(scene: Scene): Verdict {
  const support = workerSupport(scene.probeDir);
  if (support === undefined) {
    return warn(
      "not confined: verk runs from its source and verk-confine has not been built",
      "bun scripts/bundle/confine.ts",
    );
  }
  return workersVerdict(support, scene.config.sandbox.require);
}

/** Pure: the layers that hold around every worker, and how to get those that do not. */
export function workersVerdict({ holding, reasons }: Support, require: Level): Verdict {
  if (reasons.size === 0) return ok(`confined by ${holding.join(", ")}`);
  const lacking = [...reasons].map(([layer, why]) => `${layer} (${why})`).join(", ");
  const detail = `confined by ${holding.join(", ") || "nothing"}; without ${lacking}; sandbox.require is ${require}`;
  const needed = missingWorkerLayers(require, holding);
  const fix = (needed.length > 0 ? needed : [...reasons.keys()]).map((layer) => FIXES[layer]).join("; ");
  if (needed.length === 0) return warn(detail, fix);
  return fail(`${detail}: workers that need what lacks do not start`, `${fix}; or lower sandbox.require`);
}

async function sessions(scene: Scene): Promise<Verdict> {
  if (!scene.config.sessions.enabled) return ok("off: sessions.enabled is false");
  const support = await jailSupport(sessionJail(scene.probeDir));
  if (support.ok) return ok("namespaces, limits and filter work");
  return warn(`sessions answer sessions_disabled: ${support.reason}`, support.fix);
}
