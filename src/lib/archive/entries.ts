/**
 * Rules for the entries of an archive, the same for every format. An archive that passes can be unpacked into an empty
 * folder.
 */
export class ArchiveError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "ArchiveError";
  }
}

export type ArchiveLimits = {
  entries: number;
  unpackedBytes: number;
  /** Unpacked to packed, once there is enough of it to judge. */
  ratio: number;
};

export const LIMITS: ArchiveLimits = { entries: 10_000, unpackedBytes: 2 * 2 ** 30, ratio: 200 };
const RATIO_FROM_BYTES = 16 * 2 ** 20;
const OVERHEAD_BYTES = 32 * 2 ** 20; // headers and padding of the most entries
const MAX_NAME_BYTES = 1024;
const MAX_SEGMENT_BYTES = 255;

/** Receives the content of an archive. All names were checked before. `close` may come without an `open`. */
export type Sink = {
  folder: (name: string) => void;
  open: (name: string) => void;
  write: (chunk: Uint8Array) => void;
  close: () => void;
};
export const NOWHERE: Sink = { folder: () => {}, open: () => {}, write: () => {}, close: () => {} };

export type Contents = { fileCount: number; unpackedBytes: number };

const show = (name: string) => JSON.stringify(name.length > 120 ? `${name.slice(0, 120)}…` : name);
const strict = new TextDecoder("utf-8", { fatal: true });

export function nameOf(bytes: Uint8Array): string {
  try {
    return strict.decode(bytes);
  } catch {
    throw new ArchiveError(`The name ${show(new TextDecoder("latin1").decode(bytes))} is not UTF-8`);
  }
}

/** Counts and judges entries as they are met. */
export function createLedger(packedBytes: number, limits: ArchiveLimits = LIMITS) {
  const files = new Set<string>();
  const folders = new Set<string>();
  let entries = 0;
  let unpackedBytes = 0;
  let passedBytes = 0;

  const tooMany = () => new ArchiveError(`The archive has more than ${limits.entries} entries`);

  function place(name: string, isFolder: boolean) {
    entries++;
    if (entries > limits.entries) throw tooMany();
    const path = checkName(name);
    if (path === "") return; // the folder itself
    if (files.has(path) || (!isFolder && folders.has(path))) throw new ArchiveError(`${show(name)} is there twice`);
    const parts = path.split("/");
    for (let i = 1; i < parts.length; i++) {
      const above = parts.slice(0, i).join("/");
      if (files.has(above)) throw new ArchiveError(`${show(name)} lies below ${show(above)}, which is a file`);
      folders.add(above);
      if (folders.size > limits.entries) throw tooMany(); // a name is short, the folders it makes are many
    }
    (isFolder ? folders : files).add(path);
  }

  function judge(bytes: number, name: string) {
    if (bytes > limits.unpackedBytes)
      throw new ArchiveError(`Unpacked, the archive has more than ${limits.unpackedBytes} bytes (at ${show(name)})`);
    if (bytes > RATIO_FROM_BYTES && bytes > packedBytes * limits.ratio)
      throw new ArchiveError(`Unpacked, the archive is more than ${limits.ratio} times as large (at ${show(name)})`);
  }

  /** Content, before it is kept: what grows without end is stopped on the way. */
  function unpack(bytes: number, name: string) {
    unpackedBytes += bytes;
    judge(unpackedBytes, name);
  }

  /** Everything that comes out, headers and padding too. */
  function pass(bytes: number, name: string) {
    passedBytes += bytes;
    judge(passedBytes - OVERHEAD_BYTES, name);
  }

  function finish(): Contents {
    if (files.size === 0) throw new ArchiveError("The archive holds no file");
    return { fileCount: files.size, unpackedBytes };
  }
  return {
    file: (name: string) => place(name, false),
    folder: (name: string) => place(name, true),
    unpack,
    pass,
    finish,
  };
}
export type Ledger = ReturnType<typeof createLedger>;

/** `./a/b/` → `a/b`. */
function checkName(name: string): string {
  const refuse = (why: string) => new ArchiveError(`${show(name)} ${why}`);
  if (name === "") throw new ArchiveError("An entry has no name");
  if (/\p{Cc}/u.test(name)) throw refuse("has a control character in its name");
  if (name.includes("\\")) throw refuse("has a backslash in its name: paths are written with /");
  if (name.startsWith("/") || /^[A-Za-z]:/.test(name)) throw refuse("is an absolute path");
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) throw refuse(`is longer than ${MAX_NAME_BYTES} bytes`);
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw refuse("leads out of the archive with ..");
  if (parts.some((part) => Buffer.byteLength(part) > MAX_SEGMENT_BYTES)) throw refuse("has a name that no disk takes");
  return parts.join("/");
}

export const refuseKind = (name: string, kind: string): never => {
  throw new ArchiveError(`${show(name)} is ${kind}: only files and folders are taken`);
};
