/** The helper that restricts a process before it becomes a worker (src/native/confine/*.c). */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { compiled } from "../bundle/embedded.ts";
import { ensureGroup } from "../bundle/extract.ts";

const NAME = "verk-confine";

/** The executable, extracted when needed. An uncompiled run takes what a build has left in .stage, if there was one. */
export function confinePath(dataDir: string): string | undefined {
  if (compiled) return join(ensureGroup("confine", dataDir), NAME);
  const path = resolve(import.meta.dir, "../../../.stage/confine", NAME);
  return existsSync(path) ? path : undefined;
}
