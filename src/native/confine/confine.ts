/** Finds the helper that restricts a process before it becomes a worker (src/native/confine/*.c). */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { compiled } from "../bundle/embedded.ts";
import { ensureGroup } from "../bundle/extract.ts";

const NAME = "verk-confine";

/** Path of the helper, which is extracted if needed. An uncompiled run uses the last build in .stage, if any. */
export function confinePath(dataDir: string): string | undefined {
  if (compiled) return join(ensureGroup("confine", dataDir), NAME);
  const path = resolve(import.meta.dir, "../../../.stage/confine", NAME);
  return existsSync(path) ? path : undefined;
}
