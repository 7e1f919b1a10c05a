/**
 * A bundle is a tar archive: `manifest.json`, `manifest.json.minisig`, then the files in the order of the manifest. Every byte
 * follows from the two first entries and the content of the files, so a reader needs no parser for the rest.
 */
import { TAR_BLOCK, tarHeader } from "../../lib/archive/tar_write.ts";
import type { BundleFile } from "./manifest.ts";

export const MANIFEST = "manifest.json";
export const SIGNATURE = "manifest.json.minisig";
export const END_BYTES = 2 * TAR_BLOCK;

export const padded = (bytes: number) => Math.ceil(bytes / TAR_BLOCK) * TAR_BLOCK;
export const modeOf = ({ kind }: Pick<BundleFile, "kind">) => (kind === "executable" ? 0o755 : 0o644);
export const headerOf = (file: BundleFile) => tarHeader(file.path, file.bytes, "0", modeOf(file));

export type EntryPlace = { file: BundleFile; headerAt: number; contentAt: number };

/** `at`: the first byte after the signature. */
export function locate(files: readonly BundleFile[], at: number): { entries: EntryPlace[]; totalBytes: number } {
  let next = at;
  const entries = files.map((file) => {
    const headerAt = next;
    next += TAR_BLOCK + padded(file.bytes);
    return { file, headerAt, contentAt: headerAt + TAR_BLOCK };
  });
  return { entries, totalBytes: next + END_BYTES };
}
