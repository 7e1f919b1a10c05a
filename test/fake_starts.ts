import { existsSync, readFileSync } from "node:fs";

/**
 * The processes a fake's script has seen start, oldest first. A start is a whole line: the file exists for a moment
 * before its first line does, and to a signal the empty text is process 0: the whole group of the tests.
 */
export function startsOf(script: string): number[] {
  const file = `${script}.starts`;
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8").split("\n").slice(0, -1).map(Number);
}
