/**
 * The dashboard as the browser gets it. This file serves a run from source, which bundles on first use. `scripts/build`
 * replaces it with a module that embeds the files.
 */
import { join } from "node:path";

/** A file below /assets. `gzip` and `brotli` are paths of its compressed forms. */
export type Asset = { type: string; gzip: string; brotli: string };
/** `reference`: the page at /docs. `assets`: by name. A name has a hash of the content. */
export type Bundle = { index: string; reference: string; assets: Readonly<Record<string, Asset>> };

export async function loadBundle(): Promise<Bundle> {
  const { bundleDashboard } = await import("../../../../scripts/bundle/dashboard.ts");
  return await bundleDashboard(join(import.meta.dir, "../../../.."));
}
