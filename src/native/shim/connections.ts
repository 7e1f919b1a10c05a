import { openShim } from "./shim.ts";

/**
 * Refuses connections from other machines whose descriptor would be `most` or higher, for the whole process. Returns the
 * count of refused ones, or undefined if this Bun cannot be limited.
 */
export function limitConnections(dataDir: string, most: number): (() => number) | undefined {
  const { verk_limit_connections, verk_refused_connections } = openShim(dataDir);
  if (verk_limit_connections(most) === 0) return undefined;
  return () => Number(verk_refused_connections());
}
