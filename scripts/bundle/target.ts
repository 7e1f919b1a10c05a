/** The architecture that a build is for: where its packages and its Bun come from. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { PLATFORMS, type Platform, platform } from "../../src/native/platform/index.ts";
import { stageOf } from "./compile.ts";
import { fetchLocked } from "./locked_package.ts";

export type Target = {
  platform: Platform;
  /** The folder of an npm package. */
  packageDir: (name: string) => string;
  /** Bun's executable for the target; undefined: the one that runs this. */
  bun: string | undefined;
};

/** `name` is the value of --target. */
export function targetPlatform(name: string | undefined): Platform {
  if (name === undefined) return platform;
  const found = Object.values(PLATFORMS).find((each) => each.name === name);
  const names = Object.values(PLATFORMS).map((each) => each.name);
  if (!found) throw new Error(`--target: expected ${names.join(" or ")}, not ${name}`);
  return found;
}

/** node_modules has the packages of this machine. Those of another architecture are fetched, once, into .stage. */
export function openTarget(root: string, target: Platform): Target {
  const installed = (name: string) => join(root, "node_modules", name);
  if (target.arch === platform.arch) return { platform: target, packageDir: installed, bun: undefined };
  const packages = join(stageOf(root, target), "packages");
  const packageDir = (name: string) =>
    existsSync(installed(name)) ? installed(name) : fetchLocked(root, name, join(packages, name));
  return { platform: target, packageDir, bun: fetchBun(root, target) };
}

/** scripts/lib.sh pins it by hash, as the Bun that runs this. */
function fetchBun(root: string, target: Platform): string {
  const script = '. "$1/scripts/lib.sh"; foreign_bun "$2"';
  const run = Bun.spawnSync(["bash", "-c", script, "build", root, target.machine], { stderr: "pipe" });
  if (!run.success) throw new Error(run.stderr.toString().trim());
  return run.stdout.toString().trim();
}
