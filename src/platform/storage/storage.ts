import { type Chunks, type Meter, StorageError, type Written } from "../files.ts";

/**
 * Objects by key. A put is visible whole or not at all, and durable when it returns; a reader keeps what it opened
 * even when the key is overwritten or deleted meanwhile. test/storage/conformance.ts says this in tests.
 */
export type Body = Uint8Array | Blob | Chunks;
export type PutOptions = {
  maxBytes?: number;
  expectedSha256?: string;
  /** Counts each chunk before it is stored. */
  meter?: Meter;
};
export type Head = { key: string; bytes: number; sha256: string; updatedAt: number };
/** In bytes. Without a length, to the end; beyond the end is empty. */
export type ByteRange = { offset: number; length?: number };
export type Opened = {
  /** Read it to the end or cancel it: it holds a file or a connection open. */
  stream: ReadableStream<Uint8Array>;
  /** Bytes of this stream. */
  bytes: number;
  totalBytes: number;
  sha256: string;
  /**
   * The path of the whole content, where it is a file of this machine: a server sends it without reading it. Resolves
   * when the first bytes of the range are verified, or all of them; throws DamagedError.
   */
  file?: (verifyFirst?: number) => Promise<string>;
};
/** `damaged`: contents that were found to be damaged. A `get` of one throws until the same content is put again. */
export type Verified = { objects: number; bytes: number; damaged: number };
export type Page = { items: Head[]; next: string | undefined };

export interface Storage {
  /** Throws ContentError when the body is too large or of another hash, StorageError when the disk fails. */
  put(key: string, body: Body, options?: PutOptions): Promise<Written>;
  /**
   * Throws DamagedError if the content has another size, or if it is small and has another hash. The stream of larger
   * content fails at a damaged block, or at its end if it is read whole. A bucket verifies ranges itself.
   */
  get(key: string, range?: ByteRange): Promise<Opened | undefined>;
  head(key: string): Promise<Head | undefined>;
  /** Idempotent. */
  delete(key: string): Promise<void>;
  /** By key, in byte order; `after` is exclusive, `next` is the `after` of the following page. */
  list(prefix: string, options?: { after?: string; limit?: number }): Promise<Page>;
  /** Removes content that no key names and that is older than the grace; returns how much. */
  sweep(graceMs: number): Promise<{ objects: number; bytes: number }>;
  /**
   * Compares contents with their hashes. `isDue` selects by the first byte of the hash, so that a part of them can be
   * verified at a time. Only for a storage that does not do this by itself.
   */
  verify?(isDue: (firstByte: number) => boolean, signal?: AbortSignal): Promise<Verified>;
  /** Only where clients can talk to the storage itself. */
  readonly presign?: Presign;
}

/** The storage as the server uses it: nothing is put without a meter. */
export interface MeteredStorage extends Storage {
  put(key: string, body: Body, options: PutOptions & { meter: Meter }): Promise<Written>;
}

export type PresignedPut = {
  expiresSeconds: number;
  /** Exactly so many, or the storage refuses it. */
  bytes?: number;
  /** The storage checks it, and `adopt` need not read everything again. */
  sha256?: string;
  contentType?: string;
};
export type PresignedParts = { expiresSeconds: number; count: number };
export type PresignedGet = { expiresSeconds: number; filename?: string; contentType?: string };

/**
 * Addresses at which a client sends and fetches content directly. Sent content is kept apart, under a name of its own
 * (`staging`), until `adopt` has checked it and given it a key. A second use of the address has no effect.
 */
export interface Presign {
  /** The most that one `put` takes. What is larger goes in parts. */
  readonly maxPutBytes: number;
  put(options: PresignedPut): Promise<{ staging: string; url: string; headers: Record<string, string> }>;
  /** Each takes one PUT, in any order; all parts but the last have 5 MiB at least. */
  parts(options: PresignedParts): Promise<{ staging: string; urls: string[] }>;
  /** Undefined where there is no such key. */
  get(key: string, options: PresignedGet): Promise<{ url: string } | undefined>;
  /** Undefined when not all of it has come. Throws ContentError as `put` does. May be said again after a crash. */
  adopt(staging: string, key: string, options?: PutOptions): Promise<Written | undefined>;
  /** Idempotent. Without it a sweep does the same, once the address has expired. */
  discard(staging: string): Promise<void>;
}

const CONTENT_MISSING =
  "a file that it should hold is not there. Were storage.kind, the bucket or its prefix changed, or data_dir brought " +
  "back without its storage? Files do not move along: set it as it was, or bring the files back";

/** A row owns the key, and the storage does not have it. */
export class LostKeyError extends StorageError {
  constructor(key: string) {
    super(key, "read", undefined);
    this.name = "LostKeyError";
    this.message = `Cannot read ${key} from the storage: ${CONTENT_MISSING}`;
  }
  override get advice() {
    return CONTENT_MISSING;
  }
}

export class InvalidKeyError extends Error {
  constructor(
    key: string,
    readonly why: string,
  ) {
    super(`${JSON.stringify(key.slice(0, 200))} is not a storage key: ${why}`);
    this.name = "InvalidKeyError";
  }
}

const MAX_KEY_BYTES = 900; // S3 allows 1024, and our names begin with a prefix and a folder
const MAX_SEGMENT_BYTES = 240; // a file name may have 255, and ours gets a suffix

/** The same rule for every backend: `a/b/c`, no empty, `.` or `..` segment, no control character, valid Unicode. */
export function checkKey(key: string): string[] {
  const segments = key.split("/");
  const why = !key.isWellFormed()
    ? "it is not valid Unicode"
    : /[\p{Cc}\u2028\u2029]/u.test(key)
      ? "it holds a control character"
      : encodedBytes(key) > MAX_KEY_BYTES
        ? `it is longer than ${MAX_KEY_BYTES} bytes`
        : segments.map(segmentFault).find((fault) => fault !== undefined);
  if (why !== undefined) throw new InvalidKeyError(key, why);
  return segments;
}

function segmentFault(segment: string): string | undefined {
  if (segment === "") return "a part of it is empty";
  if (segment === "." || segment === "..") return `${segment} may not be a part of it`;
  if (encodedBytes(segment) > MAX_SEGMENT_BYTES) return `a part of it is longer than ${MAX_SEGMENT_BYTES} bytes`;
  return undefined;
}

/** `%` and `=` count three, ` ` and `!` two: one backend or another writes them so, and all take the same keys. */
const encodedBytes = (text: string) =>
  Buffer.byteLength(text) + 2 * (text.match(/[%=]/g)?.length ?? 0) + (text.match(/[ !]/g)?.length ?? 0);
