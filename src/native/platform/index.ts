/**
 * Facts about the two processor architectures that the product runs on. No other module names an architecture:
 * everything that differs between them is a field here.
 */
import { arm64 } from "./arm64.ts";
import { SYSCALLS } from "./syscall_table.ts";
import type { Arch, Platform } from "./types.ts";
import { x64 } from "./x64.ts";

export { pageBytes } from "./page.ts";
export type { Arch, Platform } from "./types.ts";

export const PLATFORMS: Readonly<Record<Arch, Platform>> = { x64, arm64 };

/** `arch` is a value of `process.arch`. */
export function platformOf(arch: string): Platform {
  const platform = Object.values(PLATFORMS).find((each) => each.arch === arch);
  if (!platform) throw new Error(`Verk does not run on ${arch}; it runs on ${Object.keys(PLATFORMS).join(" and ")}`);
  return platform;
}

/** The platform of this process. */
export const platform: Platform = platformOf(process.arch);

type Pair = readonly [x64: number | null, arm64: number | null];
/** The type of a call that one architecture lacks includes undefined, so the compiler checks its uses. */
export type SyscallNumbers = {
  readonly [Name in keyof typeof SYSCALLS]: (typeof SYSCALLS)[Name] extends readonly [number, number]
    ? number
    : number | undefined;
};
export type SyscallName = keyof typeof SYSCALLS;

export function syscallNumbers(arch: Arch): SyscallNumbers {
  const column = arch === x64.arch ? 0 : 1;
  const rows: [string, Pair][] = Object.entries(SYSCALLS);
  return Object.fromEntries(rows.map(([name, pair]) => [name, pair[column] ?? undefined])) as SyscallNumbers;
}
