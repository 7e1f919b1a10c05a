import { existsSync, readFileSync } from "node:fs";

/**
 * Pids of the fake processes that have started, oldest first. Only whole lines count: the file exists before its first
 * line, and an empty text would be pid 0, which signals the whole process group of the tests.
 */
export function startsOf(script: string): number[] {
  const file = `${script}.starts`;
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8").split("\n").slice(0, -1).map(Number);
}
