/** Starts workers in the sandbox of their kind, from source. Builds the helper if its sources have changed. */
import { readFileSync, readlinkSync } from "node:fs";
import { resolve } from "node:path";
import { buildConfine } from "../../scripts/bundle/confine.ts";
import { createConfinement } from "../../src/sandbox/confinement/confine.ts";
import type { WorkerLayer } from "../../src/sandbox/confinement/layers.ts";
import { probeLayers } from "../../src/sandbox/confinement/support.ts";

export const HELPER = buildConfine(resolve(import.meta.dir, "../.."));
/** The layers that this machine supports. */
export const { holding: HOLDING } = probeLayers(HELPER);

export function confinedIn(dataDir: string, without: readonly WorkerLayer[] = []) {
  const confine = createConfinement({ dataDir, require: "language", without });
  if (!confine) throw new Error("the helper was built and is not there");
  return confine;
}

/** The expected result of `seenOf` for a worker without a network. */
export const CONFINED = {
  noNewPrivs: "1",
  seccomp: "2",
  capabilities: "0000000000000000",
  ownNetwork: HOLDING.includes("namespaces"),
};

/** Reads the confinement of a process and all its threads from the kernel. */
export function seenOf(pid: number) {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const field = (name: string) => new RegExp(`^${name}:\\s+(\\S+)$`, "m").exec(status)?.[1];
  return {
    noNewPrivs: field("NoNewPrivs"),
    seccomp: field("Seccomp"),
    capabilities: field("CapEff"),
    ownNetwork: readlinkSync(`/proc/${pid}/ns/net`) !== readlinkSync("/proc/self/ns/net"),
  };
}
