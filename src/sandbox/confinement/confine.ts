/**
 * Starts workers that parse untrusted data in the sandbox of their kind (policy.ts). The helper restricts itself and
 * then becomes the worker. So all threads are restricted, and the process id stays the same.
 */
import { existsSync, mkdirSync, readdirSync, realpathSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { AppError } from "../../lib/errors.ts";
import type { Level } from "../../lib/rewards/levels.ts";
import { MINUTE_MS } from "../../lib/units.ts";
import { elfNeeds } from "../../native/bundle/elf.ts";
import { isExtracted } from "../../native/bundle/extract.ts";
import { confinePath } from "../../native/confine/confine.ts";
import { compiled } from "../../platform/workers/self.ts";
import type { Confine } from "../../platform/workers/types.ts";
import { missingWorkerLayers, type WorkerLayer } from "./layers.ts";
import { confineArgs, type Facts, gpuDevices, policyOf, rulesFor } from "./policy.ts";
import { probeLayers, type Support } from "./support.ts";

const PROBE_AGAIN_MS = MINUTE_MS; // The operator may have fixed the machine meanwhile.
const SOURCES = resolve(import.meta.dir, "../../..");

type Options = {
  dataDir: string;
  require: Level;
  /** For tests: layers that are omitted although the machine supports them. */
  without?: readonly WorkerLayer[];
};

/** Returns undefined for a run from source before the first build. Workers are not confined then. */
export function createConfinement({ dataDir, require, without = [] }: Options): Confine | undefined {
  const path = compiled ? undefined : confinePath(dataDir);
  if (!compiled && path === undefined) return undefined;
  const supportOf = keepSupport();
  return ({ kind, argv, env, folder, grants }) => {
    const policy = policyOf(kind);
    if (!policy) return argv;
    const helper = path ?? (confinePath(dataDir) as string); // Extracts the helper again if it was removed.
    const { holding, reasons } = supportOf(helper);
    const layers = holding.filter((layer) => !without.includes(layer) && !(policy.network && layer === "namespaces"));
    const missing = missingWorkerLayers(require, layers, policy.network);
    if (missing.length > 0) throw lacking(kind, require, missing, reasons);
    const { own, given, socketPath } = folder;
    const facts: Facts = {
      ...programFacts(argv[0] ?? ""),
      libraries: join(dataDir, "native"),
      libraryPath: env["LD_LIBRARY_PATH"] ?? "",
      devices: grants.gpu ? gpuDevices(readdirSync("/dev")) : [],
      cudaCache: env["CUDA_CACHE_PATH"] ?? join(own, ".nv"),
      folder: { own, given, socketDir: dirname(socketPath) },
    };
    if (grants.gpu) mkdirSync(facts.cudaCache, { recursive: true, mode: 0o700 });
    const rules = rulesFor(policy, facts, { ...grants, updates: (grants.updates ?? []).filter(existsSync) });
    const start = {
      layers,
      network: policy.network,
      listens: policy.listens === true,
      owner: grants.owner === true,
      nice: policy.nice,
      rules,
    };
    return [helper, ...confineArgs(start, unpacking(policy.groups(grants.gpu === true), dataDir, argv), argv)];
  };
}

/** argv of the program that extracts missing libraries, because the worker cannot write them. */
function unpacking(groups: readonly string[], dataDir: string, argv: readonly string[]): string[] {
  const absent = groups.filter((group) => !isExtracted(group, dataDir));
  return absent.length === 0 ? [] : [argv[0] ?? "", "worker", "unpack", dataDir, ...absent];
}

function keepSupport(): (helper: string) => Support {
  let support: Support | undefined;
  let until = 0;
  return (helper) => {
    if (support && performance.now() < until) return support;
    support = probeLayers(helper);
    until = support.reasons.size === 0 ? Number.POSITIVE_INFINITY : performance.now() + PROBE_AGAIN_MS;
    return support;
  };
}

const programs = new Map<string, Pick<Facts, "program" | "interpreter" | "sources">>();

function programFacts(program: string) {
  const stored = programs.get(program);
  if (stored) return stored;
  const path = realpathSync(program);
  const facts = { program: path, interpreter: elfNeeds(path).interpreter, sources: compiled ? null : SOURCES };
  programs.set(program, facts);
  return facts;
}

function lacking(kind: string, level: Level, missing: readonly WorkerLayer[], reasons: Support["reasons"]): AppError {
  const named = missing.map((layer) => `${layer} (${reasons.get(layer) ?? "omitted"})`).join(", ");
  return new AppError(
    "sandbox_unavailable",
    `The ${kind} worker cannot start: sandbox.require = "${level}" needs ${named}, which this machine does not have: ` +
      "run `verk doctor` to see what to change, or lower the setting",
  );
}
