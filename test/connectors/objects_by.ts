import type { Open } from "../../src/workers/connector/types.ts";

/** Loads one module at a time, as the worker does. */
export function objectsBy(type: string): Promise<{ open: Open }> {
  if (type === "s3") return import("../../src/workers/connector/s3.ts");
  if (type === "gs") return import("../../src/workers/connector/gs.ts");
  if (type === "az") return import("../../src/workers/connector/az.ts");
  return import("../../src/workers/connector/hf.ts");
}
