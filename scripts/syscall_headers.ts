/** The numbers of system calls in this machine's kernel headers, by the C preprocessor. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Platform, platform } from "../src/native/platform/index.ts";

/** The headers of `target`, or undefined where this machine has none: Debian's linux-libc-dev and …-cross. */
export function headerDirs(target: Platform): string[] | undefined {
  const own = [join("/usr/include", target.multiarch), "/usr/include"];
  const dirs = target.arch === platform.arch ? own : [join(target.cross.root, "include")];
  return dirs.some((dir) => existsSync(join(dir, "asm/unistd.h"))) && Bun.which("gcc") !== null ? dirs : undefined;
}

export function headerNumbers(dirs: readonly string[]): Map<string, number> {
  const command = ["gcc", "-E", "-dM", "-nostdinc", ...dirs.flatMap((dir) => ["-isystem", dir]), "-x", "c", "-"];
  const run = Bun.spawnSync(command, { stdin: Buffer.from("#include <asm/unistd.h>\n"), stderr: "pipe" });
  if (!run.success) throw new Error(`the kernel headers cannot be read:\n${run.stderr.toString()}`);
  const macros = new Map<string, string>();
  for (const [, name = "", value = ""] of run.stdout.toString().matchAll(/^#define (\w+) (\w+)$/gm)) {
    macros.set(name, value);
  }
  const numbers = new Map<string, number>();
  for (const name of macros.keys()) {
    const call = /^__NR_([a-z]\w*)$/.exec(name)?.[1];
    const value = call === undefined || NOT_CALLS.has(call) ? undefined : resolve(macros, name);
    if (call !== undefined && value !== undefined) numbers.set(call, value);
  }
  return numbers;
}

/** Bounds of ranges, which the generic header defines beside the calls. */
const NOT_CALLS = new Set(["syscalls", "arch_specific_syscall"]);

/** A macro may name another one, which has the number. */
function resolve(macros: ReadonlyMap<string, string>, name: string): number | undefined {
  const value = macros.get(name);
  if (value === undefined) return undefined;
  return /^\d+$/.test(value) ? Number(value) : resolve(macros, value);
}
