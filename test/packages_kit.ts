/** A release with a small executable, so that a package is made in milliseconds. */
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Release } from "../scripts/packages/contents.ts";
import { platform } from "../src/native/platform/index.ts";

const ROOT = resolve(import.meta.dir, "..");

export type World = { dir: string; release: Release };

/** The caller removes `dir`. */
export function packageWorld(): World {
  const dir = mkdtempSync(join(tmpdir(), "verk-packages-"));
  const executable = join(dir, "program");
  writeFileSync(executable, "#!/bin/sh\necho verk\n", { mode: 0o755 });
  const maintainer = "Ada Lovelace <ada@example.com>";
  return {
    dir,
    release: { root: ROOT, executable, platform, version: "1.2.3", seconds: 1_700_000_000, maintainer },
  };
}

export type Ended = { code: number; out: string; err: string };

export function run(argv: string[], env: Record<string, string> = {}): Ended {
  const ended = Bun.spawnSync(argv, {
    stdin: "ignore",
    stderr: "pipe",
    env: { ...process.env, LC_ALL: "C.UTF-8", TZ: "UTC", ...env },
  });
  return { code: ended.exitCode, out: ended.stdout.toString(), err: ended.stderr.toString() };
}

/** Commands that only write their arguments into a log. `failing` exit with 1. */
export function pretendCommands(dir: string, names: readonly string[], failing: readonly string[] = []): string {
  const bin = join(dir, "pretend");
  mkdirSync(bin, { recursive: true });
  for (const name of names) {
    const script = `#!/bin/sh\necho "${name} $*" >>"${join(dir, "calls")}"\nexit ${failing.includes(name) ? 1 : 0}\n`;
    writeFileSync(join(bin, name), script, { mode: 0o755 });
  }
  return bin;
}
