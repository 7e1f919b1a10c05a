/** bun scripts/gpu/shims.ts OUT: puts verk-shim.so into OUT/NAME for each architecture that this machine compiles for. */
import { copyFileSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { PLATFORMS } from "../../src/native/platform/index.ts";
import { buildShim } from "../bundle/shim.ts";

const root = dirname(dirname(import.meta.dir));
for (const target of Object.values(PLATFORMS)) {
  const dir = join(process.argv[2] ?? "", target.name);
  try {
    const path = buildShim(root, target);
    mkdirSync(dir, { recursive: true });
    copyFileSync(path, join(dir, "verk-shim.so"));
  } catch (error) {
    console.error(`pack: run.sh compiles verk-shim.so itself on ${target.name}: ${(error as Error).message}`);
  }
}
