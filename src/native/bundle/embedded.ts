/**
 * The table of native files inside the executable. This file is what an uncompiled run sees: nothing is embedded and
 * every library comes from node_modules. `scripts/build.ts` puts the real table in its place.
 */
export type EmbeddedFile = {
  /** Path inside the extracted group, which keeps the layout that the libraries' RPATHs expect. */
  rel: string;
  bytes: number;
  sha256: string;
  /** Consecutive slices of the file, each zstd-compressed, so that extraction never holds a whole library. */
  parts: readonly string[];
  /** Where it begins in what the parts hold: files that are alike lie in one part, one after another. */
  from: number;
};
export type EmbeddedGroup = { hash: string; files: readonly EmbeddedFile[] };

export const compiled: boolean = false;
export const groups: Readonly<Record<string, EmbeddedGroup>> = {};
