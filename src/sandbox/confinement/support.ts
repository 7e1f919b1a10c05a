/** Finds the layers that this machine supports by trying each one in a short-lived process. */
import { errorText } from "../../lib/error_text.ts";
import { confinePath } from "../../native/confine/confine.ts";
import { WORKER_LAYERS, type WorkerLayer } from "./layers.ts";

export type Support = {
  holding: readonly WorkerLayer[];
  /** Why the other layers are missing. */
  reasons: ReadonlyMap<WorkerLayer, string>;
};

/** Returns undefined if verk runs from source and the helper has not been built. */
export function workerSupport(dataDir: string): Support | undefined {
  const helper = confinePath(dataDir);
  return helper === undefined ? undefined : probeLayers(helper);
}

export function probeLayers(helper: string): Support {
  try {
    const { exitCode, stdout, stderr } = Bun.spawnSync([helper, "--probe"], { stdin: "ignore", env: {} });
    if (exitCode === 0) return readProbe(stdout.toString());
    return none(stderr.toString().trim() || `the helper ended with code ${exitCode}`);
  } catch (error) {
    const why = errorText(error);
    return none(`the helper did not start (${why}): mount the data directory without noexec`);
  }
}

/** Parses lines of "NAME ok" or "NAME reason". */
export function readProbe(text: string): Support {
  const lines = new Map(text.split("\n").map((line) => [line.split(" ", 1)[0], line.slice(line.indexOf(" ") + 1)]));
  const holding = WORKER_LAYERS.filter((layer) => lines.get(layer) === "ok");
  const lacking = WORKER_LAYERS.filter((layer) => !holding.includes(layer));
  return {
    holding,
    reasons: new Map(lacking.map((layer) => [layer, lines.get(layer) ?? "the helper did not report it"])),
  };
}

const none = (why: string): Support => ({
  holding: [],
  reasons: new Map(WORKER_LAYERS.map((layer) => [layer, why])),
});
