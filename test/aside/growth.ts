import { readFileSync } from "node:fs";

const status = (name: string) =>
  Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync("/proc/self/status", "utf8"))?.[1]) * 1024;

/** By how many bytes the most that this process ever held is above what it held before `work`. */
export async function growthBy(work: () => unknown): Promise<number> {
  Bun.gc(true);
  const before = status("VmRSS");
  await work();
  return Math.max(0, status("VmHWM") - before);
}
