import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [];
