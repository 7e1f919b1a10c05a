/**
 * The license texts of everything inside the executable. This file serves a run from source, which reads the packages.
 * `scripts/build` replaces it with a module that embeds the texts.
 */
import { join } from "node:path";

export type Licensed = {
  name: string;
  version: string | null;
  /** An SPDX expression. */
  license: string;
  /** The component that contains it, if it has no package of its own. */
  inside: string | null;
  note: string | null;
  /** Positions in `Licenses.texts`. */
  texts: readonly number[];
};
/** Each text is there once. */
export type Licenses = { components: readonly Licensed[]; texts: readonly string[] };

export async function loadLicenses(): Promise<Licenses> {
  const { licensesFromSource } = await import("../../scripts/bundle/licenses.ts");
  return await licensesFromSource(join(import.meta.dir, "../.."));
}
