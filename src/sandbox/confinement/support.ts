/** Which layers this machine can put around a worker: by trying each in a process that then ends. */
import { confinePath } from "../../native/confine/confine.ts";
import { WORKER_LAYERS, type WorkerLayer } from "./layers.ts";

export type Support = {
  holding: readonly WorkerLayer[];
  /** Why the others do not. */
  reasons: ReadonlyMap<WorkerLayer, string>;
};

/** Undefined where verk runs from its source and the helper has not been built. */
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
    const why = error instanceof Error ? error.message : String(error);
    return none(`the helper did not start (${why}): mount the data directory without noexec`);
  }
}

/** Lines of "NAME ok" or "NAME why not". */
export function readProbe(text: string): Support {
  const said = new Map(text.split("\n").map((line) => [line.split(" ", 1)[0], line.slice(line.indexOf(" ") + 1)]));
  const holding = WORKER_LAYERS.filter((layer) => said.get(layer) === "ok");
  const lacking = WORKER_LAYERS.filter((layer) => !holding.includes(layer));
  return { holding, reasons: new Map(lacking.map((layer) => [layer, said.get(layer) ?? "nothing is known of it"])) };
}

const none = (why: string): Support => ({
  holding: [],
  reasons: new Map(WORKER_LAYERS.map((layer) => [layer, why])),
});
