/** Makes a bundle from files of this machine. */
import { statSync } from "node:fs";
import { open } from "node:fs/promises";
import { basename } from "node:path";
import { tarChunks } from "../../lib/archive/tar_write.ts";
import { UsageError } from "../../lib/errors.ts";
import { MIB } from "../../lib/units.ts";
import { sha256File, UNCOUNTED, writeStreamAtomic } from "../files.ts";
import { MANIFEST, modeOf, SIGNATURE } from "./layout.ts";
import { type BundleFile, type BundleManifest, manifestText, readManifest } from "./manifest.ts";
import type { SecretKey } from "./minisign/keys.ts";
import { sign } from "./minisign/signature.ts";
import { commentOf } from "./read_bundle.ts";
import { readStamp, type Stamp } from "./stamp.ts";

/** `path`: inside the bundle. An executable is named by its platform instead. */
export type Content = { kind: Exclude<BundleFile["kind"], "executable">; path: string; from: string };

export async function writeBundle(options: {
  out: string;
  executables: readonly string[];
  contents: readonly Content[];
  key: SecretKey;
}): Promise<BundleManifest> {
  const { out, executables, contents, key } = options;
  const stamps = executables.map((from) => ({ from, stamp: readStamp(from) }));
  const release = sameRelease(stamps);
  const files: { file: BundleFile; from: string }[] = [];
  for (const { from, stamp } of stamps)
    files.push({ from, file: await describe(from, `verk-${stamp.target}`, "executable", stamp.target) });
  for (const { kind, path, from } of contents) files.push({ from, file: await describe(from, path, kind, null) });
  const manifest: BundleManifest = {
    format: 1,
    product: "verk",
    version: release.version,
    database_version: release.database_version,
    commit: release.commit,
    built_at: release.built_at,
    files: files.map(({ file }) => file),
  };
  const text = new TextEncoder().encode(manifestText(manifest));
  readManifest(text); // names what a reader would refuse
  const signature = new TextEncoder().encode(sign(text, key, commentOf(text)));
  const entries = [
    { name: MANIFEST, size: text.length, content: () => once(text) },
    { name: SIGNATURE, size: signature.length, content: () => once(signature) },
    ...files.map(({ file, from }) => ({
      name: file.path,
      size: file.bytes,
      mode: modeOf(file),
      content: () => bytesOf(from),
    })),
  ];
  await writeStreamAtomic(out, tarChunks(entries), { mode: 0o644, meter: UNCOUNTED });
  return manifest;
}

/** All executables must come from one build, or one machine would upgrade to something else than another. */
function sameRelease(stamps: readonly { from: string; stamp: Stamp }[]): Stamp {
  const [first, ...others] = stamps;
  if (!first) throw new UsageError("--executable is missing: name at least one executable of Verk");
  const facts = ({ version, database_version, commit }: Stamp) =>
    `${version}, database ${database_version}, commit ${commit}`;
  const seen = new Set([first.stamp.target]);
  for (const { from, stamp } of others) {
    if (facts(stamp) !== facts(first.stamp))
      throw new UsageError(
        `${from} is ${facts(stamp)}, but ${first.from} is ${facts(first.stamp)}: build both from one commit`,
      );
    if (seen.has(stamp.target)) throw new UsageError(`${from} is a second executable for ${stamp.target}`);
    seen.add(stamp.target);
  }
  return first.stamp;
}

async function describe(
  from: string,
  path: string,
  kind: BundleFile["kind"],
  target: string | null,
): Promise<BundleFile> {
  const stats = statSync(from, { throwIfNoEntry: false });
  if (!stats?.isFile()) throw new UsageError(`${from} is not a file`);
  return { path, kind, target, bytes: stats.size, sha256: await sha256File(from) };
}

export const nameInBundle = (from: string) => basename(from).replaceAll(/[^\w.+@-]/g, "_");

async function* once(bytes: Uint8Array) {
  yield bytes;
}

async function* bytesOf(path: string) {
  const handle = await open(path, "r");
  try {
    for (;;) {
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(MIB), 0, MIB);
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}
