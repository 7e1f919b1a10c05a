import { join } from "node:path";

export const compiled = Bun.main.startsWith("/$bunfs/");

/** argv that re-enters this program: the executable itself, or `bun src/main.ts` in development. */
export const self = (...args: string[]): string[] =>
  compiled ? [process.execPath, ...args] : [process.execPath, join(import.meta.dir, "../..", "main.ts"), ...args];
