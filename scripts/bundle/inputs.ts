/** Hashes all inputs of dist/verk, so that a build can be skipped if none has changed. */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const INPUTS = ["src", "config", "models", "docs/openapi.json", "scripts/bundle", "scripts/packages"];
const FILES = ["package.json", "bun.lock", "tsconfig.json", "bunfig.toml", "LICENSE", "NOTICE", "scripts/build.ts"];

export function inputsHash(root: string, options: string): string {
  const hash = createHash("sha256").update(`${Bun.version} ${options}`);
  for (const entry of [...INPUTS, ...FILES]) {
    for (const file of listFiles(root, entry)) {
      const content = readFileSync(join(root, file));
      hash.update(`\0${file}\0${content.byteLength}\0`).update(content);
    }
  }
  return hash.digest("hex");
}

function listFiles(root: string, path: string): string[] {
  const full = join(root, path);
  if (!existsSync(full)) return [];
  if (statSync(full).isFile()) return /\.(test\.ts|tmp)$/.test(path) ? [] : [path];
  return readdirSync(full)
    .sort()
    .flatMap((name) => listFiles(root, join(path, name)));
}
