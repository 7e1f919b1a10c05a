import { version } from "../../package.json";

// Literals put in place by scripts/build.ts; an uncompiled run has none.
declare const VERK_COMMIT: string;
declare const VERK_BUILT_AT: string;

export const VERSION: string = version;
/** Short git commit of the build, or "dev". */
export const COMMIT: string = typeof VERK_COMMIT === "string" ? VERK_COMMIT : "dev";
/** ISO 8601; the commit's date, so that the same commit builds the same bytes. */
export const BUILT_AT: string | null = typeof VERK_BUILT_AT === "string" ? VERK_BUILT_AT : null;
