/** Checks which sandbox layers work for workers and for user code, by starting each sandbox. */
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
  // Test all layers, whatever the configuration requires.
  const settings = { ...scene.config.sandbox, require: "language" as const, spare_seconds: 0 };
  const pool = createRewardPool({ settings, dataDir: scene.probeDir });
  const starts: SandboxStart[] = [];
  try {
    for (const language of ["python", "typescript"] as const) {
      const startedAt = performance.now();
      const process = await pool.take(language);
      starts.push({ language, layers: process.layers, ms: performance.now() - startedAt });
      await process.close();
    }
  } catch (error) {
    return fail((error as Error).message, "follow the message; until then no reward function runs");
  } finally {
    await pool.close();
  }
  return layersVerdict(starts, scene.config.sandbox.require, await rewardSpawner(scene.probeDir).support());
}

type SandboxStart = { language: Language; layers: readonly Layer[]; ms: number };

const FIXES: Record<Layer, string> = {
  language: "this build is broken: install verk again",
  rlimits: "remove LimitDATA and similar hard limits from the systemd unit",
  no_new_privs: "use Linux 3.5 or newer",
  seccomp: "use a kernel with CONFIG_SECCOMP_FILTER; in a container, allow seccomp (--security-opt seccomp=unconfined)",
  landlock: "use Linux 5.13 or newer with landlock among the security modules (kernel parameter lsm=landlock,…)",
  namespaces: "allow user namespaces for ordinary users (sysctl user.max_user_namespaces)",
};

/** Pure: the verdict on the layers of each sandbox, and how to get the missing ones. */
export function layersVerdict(
  starts: readonly SandboxStart[],
  require: Scene["config"]["sandbox"]["require"],
  support?: JailSupport,
): Verdict {
  const holding = LAYERS.filter((layer) => starts.every(({ layers }) => layers.includes(layer)));
  const lacking = LAYERS.filter((layer) => !holding.includes(layer));
  const times = starts.map(({ language, ms }) => `${language} in ${Math.round(ms)} ms`).join(", ");
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

/** Workers parse untrusted input: images, model files, archives, rows of external sources. */
function workers(scene: Scene): Verdict {
  const support = workerSupport(scene.probeDir);
  if (support === undefined) {
    return warn(
      "not confined: verk runs from source and verk-confine is not built",
      "run bun scripts/bundle/confine.ts",
    );
  }
  return workersVerdict(support, scene.config.sandbox.require);
}

/** Pure: the layers that confine every worker, and how to get the missing ones. */
export function workersVerdict({ holding, reasons }: Support, require: Level): Verdict {
  if (reasons.size === 0) return ok(`confined by ${holding.join(", ")}`);
  const lacking = [...reasons].map(([layer, why]) => `${layer} (${why})`).join(", ");
  const detail = `confined by ${holding.join(", ") || "nothing"}; without ${lacking}; sandbox.require is ${require}`;
  const needed = missingWorkerLayers(require, holding);
  const fix = (needed.length > 0 ? needed : [...reasons.keys()]).map((layer) => FIXES[layer]).join("; ");
  if (needed.length === 0) return warn(detail, fix);
  return fail(`${detail}: workers that need the missing layers do not start`, `${fix}; or lower sandbox.require`);
}

async function sessions(scene: Scene): Promise<Verdict> {
  if (!scene.config.sessions.enabled) return ok("off: sessions.enabled is false");
  const support = await jailSupport(sessionJail(scene.probeDir));
  if (support.ok) return ok("namespaces, limits and filter work");
  return warn(`sessions are disabled (sessions_disabled): ${support.reason}`, support.fix);
}
