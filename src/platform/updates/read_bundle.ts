/** Opens a bundle. Nothing of it is believed before the signature of its manifest is verified. */
import { type FileHandle, open } from "node:fs/promises";
import { TAR_BLOCK, tarHeader } from "../../lib/archive/tar_write.ts";
import { UsageError } from "../../lib/errors.ts";
import { KIB, MIB } from "../../lib/units.ts";
import { ContentError, readExactly, StorageError, sha256Bytes, UNCOUNTED, writeStreamAtomic } from "../files.ts";
import { END_BYTES, type EntryPlace, headerOf, locate, MANIFEST, modeOf, padded, SIGNATURE } from "./layout.ts";
import { type BundleFile, type BundleManifest, MAX_MANIFEST, readManifest } from "./manifest.ts";
import { keyName, type PublicKey } from "./minisign/keys.ts";
import { isSigned, readSignature, signatureFile } from "./minisign/signature.ts";

const MAX_SIGNATURE = 4 * KIB;
const CHUNK = MIB;

export type Bundle = {
  manifest: BundleManifest;
  /** The id of the key that signed it, as minisign prints it. */
  signer: string;
  /** Reads every byte and compares it with the manifest. Throws on the first difference. */
  check: () => Promise<void>;
  /** Writes one file. Its hash is verified again, so a bundle that changed since `check` leaves nothing. */
  extract: (file: BundleFile, to: string) => Promise<void>;
  close: () => Promise<void>;
};

const refuse = (path: string, why: string, cause?: unknown) =>
  new UsageError(`${path}: ${why}`, 5, cause === undefined ? undefined : { cause });

export async function openBundle(path: string, keys: readonly PublicKey[]): Promise<Bundle> {
  if (keys.length === 0)
    throw new UsageError(
      "There is no key to verify a bundle with: this build has no release key. " +
        "Name one with --key FILE, or put it into updates.trusted_keys of the configuration.",
    );
  const handle = await open(path, "r").catch((cause) => {
    throw new StorageError(path, "read", cause);
  });
  try {
    return await read(path, handle, keys);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function read(path: string, handle: FileHandle, keys: readonly PublicKey[]): Promise<Bundle> {
  const { size } = await handle.stat();
  const cutOff = () => refuse(path, "the bundle is not complete: it ends too early. Copy it again.");
  const bytesAt = (at: number, length: number) => readExactly(handle, Buffer.allocUnsafe(length), at, cutOff);
  const manifestBytes = await smallEntry(path, bytesAt, 0, MANIFEST, MAX_MANIFEST);
  const signatureAt = TAR_BLOCK + padded(manifestBytes.length);
  const signatureBytes = await smallEntry(path, bytesAt, signatureAt, SIGNATURE, MAX_SIGNATURE);
  const signer = verifySignature(path, manifestBytes, signatureBytes, keys);
  const manifest = readManifest(manifestBytes);
  const { entries, totalBytes } = locate(manifest.files, signatureAt + TAR_BLOCK + padded(signatureBytes.length));
  if (size !== totalBytes)
    throw refuse(
      path,
      `the bundle has ${size} bytes and should have ${totalBytes}: it is not complete. Copy it again.`,
    );

  async function check() {
    for (const each of entries) await checkFile(path, bytesAt, each);
    if ((await bytesAt(totalBytes - END_BYTES, END_BYTES)).some((byte) => byte !== 0)) throw damaged(path, "its end");
  }
  async function extract(file: BundleFile, to: string) {
    const entry = entries.find((each) => each.file === file);
    if (!entry) throw new Error(`${file.path} is not a file of this bundle`);
    const options = { mode: modeOf(file), expectedSha256: file.sha256 };
    await writeStreamAtomic(to, contentOf(bytesAt, entry), { ...options, meter: UNCOUNTED }).catch((error) => {
      throw error instanceof ContentError ? damaged(path, file.path) : error;
    });
  }
  return { manifest, signer, check, extract, close: () => handle.close() };
}

type BytesAt = (at: number, length: number) => Promise<Buffer>;

/** One of the two entries whose size is not known beforehand. Its header must be the one that the writer makes. */
async function smallEntry(path: string, bytesAt: BytesAt, at: number, name: string, most: number): Promise<Buffer> {
  const header = await bytesAt(at, TAR_BLOCK);
  const size = Number.parseInt(header.toString("latin1", 124, 135), 8);
  if (!(size >= 0 && size <= most) || !header.equals(tarHeader(name, size)))
    throw refuse(path, `this is not a bundle of Verk, or it is damaged at ${name}`);
  const content = await bytesAt(at + TAR_BLOCK, padded(size));
  if (content.subarray(size).some((byte) => byte !== 0)) throw damaged(path, name);
  return content.subarray(0, size);
}

function verifySignature(path: string, manifest: Buffer, text: Buffer, keys: readonly PublicKey[]): string {
  const signature = readSignature(text.toString("utf8"));
  const signer = keyName(signature.id);
  if (!keys.some(({ id }) => id.equals(signature.id)))
    throw refuse(
      path,
      `the bundle is signed with the key ${signer}, which is not trusted here (${keys.map(({ id }) => keyName(id)).join(", ")} is)`,
    );
  if (signatureFile(signature) !== text.toString("utf8") || !isSigned(manifest, signature, keys))
    throw refuse(path, "the signature does not match: the bundle was changed after it was signed, or it is damaged");
  if (signature.comment !== commentOf(manifest)) throw refuse(path, "the signature was made for something else");
  return signer;
}

/** The signature says what it is for, so that one of another file of the same key does not pass. */
export const commentOf = (manifest: Uint8Array) => `verk bundle manifest sha256:${sha256Bytes(manifest)}`;

async function checkFile(path: string, bytesAt: BytesAt, each: EntryPlace) {
  const { file, headerAt, contentAt } = each;
  if (!(await bytesAt(headerAt, TAR_BLOCK)).equals(headerOf(file))) throw damaged(path, `the header of ${file.path}`);
  const hasher = new Bun.CryptoHasher("sha256");
  for await (const chunk of contentOf(bytesAt, each)) hasher.update(chunk);
  if (hasher.digest("hex") !== file.sha256) throw damaged(path, file.path);
  const rest = await bytesAt(contentAt + file.bytes, padded(file.bytes) - file.bytes);
  if (rest.some((byte) => byte !== 0)) throw damaged(path, `the padding of ${file.path}`);
}

async function* contentOf(bytesAt: BytesAt, { file, contentAt }: EntryPlace) {
  for (let at = 0; at < file.bytes; at += CHUNK) yield await bytesAt(contentAt + at, Math.min(CHUNK, file.bytes - at));
}

const damaged = (path: string, where: string) =>
  refuse(path, `the bundle is damaged or was changed: ${where} does not match the signed manifest. Copy it again.`);
