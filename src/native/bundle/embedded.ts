/**
 * The table of native files in the executable. An uncompiled run uses this file: nothing is embedded, and every library
 * comes from node_modules. `scripts/build.ts` replaces it with the real table.
 */
export type EmbeddedFile = {
  /** Path in the extracted group, which has the layout that the RPATHs of the libraries expect. */
  rel: string;
  bytes: number;
  sha256: string;
  /** Consecutive slices of the file, each compressed with zstd, so that extraction needs little memory. */
  parts: readonly string[];
  /** Offset of the file in the content of the parts. Similar files share a part. */
  from: number;
};
export type EmbeddedGroup = { hash: string; files: readonly EmbeddedFile[] };

export const compiled: boolean = false;
export const groups: Readonly<Record<string, EmbeddedGroup>> = {};
