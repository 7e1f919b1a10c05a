/** Builds the files from which reward processes start Python, in `.stage/python`, if their sources have changed. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const HARNESS = ["harness.py", "harness_entry.py", "harness_environment.py", "harness_step.py"].map(
  (name) => `src/workers/reward/python/${name}`,
);

/** One program, in parts of a readable length. */
export const harnessOf = (root: string) => HARNESS.map((path) => readFileSync(join(root, path), "utf8")).join("\n\n");

/** The files that determine the result. */
const SOURCES = [
  ...HARNESS,
  "node_modules/pyodide/package.json",
  "scripts/bundle/python_image.ts",
  "src/workers/reward/python/gate.ts",
  "src/workers/reward/python/open.ts",
];

export function stagePython(root: string): string {
  const dir = join(root, ".stage/python");
  const hash = createHash("sha256").update(Bun.version);
  for (const source of SOURCES) hash.update(readFileSync(join(root, source)));
  const key = hash.digest("hex");
  const keyFile = join(dir, "key");
  if (existsSync(keyFile) && readFileSync(keyFile, "utf8") === key) return dir;
  const temp = join(root, `.stage/python-${process.pid}`);
  mkdirSync(temp, { recursive: true });
  const made = Bun.spawnSync([process.execPath, join(root, "scripts/bundle/python_image.ts"), temp], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (!made.success) throw new Error("the Python image could not be built; the reason is above");
  writeFileSync(join(temp, "key"), key);
  rmSync(dir, { recursive: true, force: true });
  renameSync(temp, dir);
  return dir;
}
