import { join } from "node:path";

export const compiled = Bun.main.startsWith("/$bunfs/");

/** argv that re-enters this program: the executable itself, or `bun src/main.ts` in development. */
export const self = (...args: string[]): string[] => [...runtime(), ...args];

const runtime = (...flags: string[]): string[] =>
  compiled ? [process.execPath] : [process.execPath, ...flags, join(import.meta.dir, "../..", "main.ts")];

/**
 * `VERK_INSPECT=trainer`: a worker of that kind waits for a debugger, unconfined, because one that is confined cannot
 * listen. Only from source: an executable has no such door. Undefined: not asked for.
 */
export const inspected = (kind: string, env: Record<string, string | undefined>): string[] | undefined =>
  !compiled && env["VERK_INSPECT"] === kind ? runtime("--inspect-wait=127.0.0.1:6499") : undefined;
