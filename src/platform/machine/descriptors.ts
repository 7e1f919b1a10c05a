import { readdirSync, readFileSync } from "node:fs";

/** File descriptors that this process may still open, or undefined where /proc does not say. */
export function descriptorsLeft(): number | undefined {
  try {
    const limit = /^Max open files\s+(\d+|unlimited)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    if (limit === undefined || limit === "unlimited") return undefined;
    return Number(limit) - readdirSync("/proc/self/fd").length;
  } catch (error) {
    if ((error as { code?: unknown }).code === "EMFILE") return 0;
    return undefined;
  }
}
