import { version } from "../../package.json";

// Literals put in place by scripts/build.ts; an uncompiled run has none.
declare const VERK_COMMIT: string;
declare const VERK_BUILT_AT: string;
declare const VERK_VERSION: string;
declare const VERK_STAMP: string;
declare const VERK_RELEASE_KEY: string;

export const VERSION: string = typeof VERK_VERSION === "string" ? VERK_VERSION : version;
/** Short git commit of the build, or "dev". */
export const COMMIT: string = typeof VERK_COMMIT === "string" ? VERK_COMMIT : "dev";
/** ISO 8601; the commit's date, so that the same commit builds the same bytes. */
export const BUILT_AT: string | null = typeof VERK_BUILT_AT === "string" ? VERK_BUILT_AT : null;
/** Names this build inside the executable, where `platform/updates/stamp.ts` finds it without running the program. */
export const STAMP: string = typeof VERK_STAMP === "string" ? VERK_STAMP : "";
/** Public key (minisign) whose bundles this executable installs; empty in builds without one. */
export const RELEASE_KEY: string = typeof VERK_RELEASE_KEY === "string" ? VERK_RELEASE_KEY : "";

/** Facts that `verk version --json` prints. */
export const buildFacts = () => ({
  version: VERSION,
  commit: COMMIT,
  built_at: BUILT_AT,
  bun: Bun.version,
  database_version: STAMP === "" ? null : Number(STAMP.split("|")[2]),
});
