import { ArchiveError, type Ledger, NOWHERE, nameOf, refuseKind, type Sink } from "./entries.ts";

/**
 * Reads a tar archive (ustar, pax, GNU long names) as a stream and checks each entry before its content is passed on.
 */
const BLOCK = 512;
const MAX_EXTRA_BYTES = 1 << 20; // limit of a pax header or a long name

type Header = { name: string; size: number; type: string };

/** Kinds of entries other than files and folders. */
const KINDS: Record<string, string> = {
  "1": "a hard link",
  "2": "a symbolic link",
  "3": "a character device",
  "4": "a block device",
  "6": "a named pipe",
  K: "a link with a long name",
  S: "a sparse file",
};

export function createTarReader(ledger: Ledger, sink: Sink = NOWHERE) {
  const block = new Uint8Array(BLOCK);
  let filled = 0; // bytes in the block
  let left = 0; // bytes left of the current content, padding included
  let kept: Uint8Array | undefined; // content that is read here: pax records, a long name
  let current: Header | undefined;
  let extra: { path?: string; size?: number } = {};
  let ended = false;

  function take(header: Header) {
    const isExtra = ["x", "g", "L"].includes(header.type);
    const meant = { name: extra.path ?? header.name, size: extra.size ?? header.size, type: header.type };
    current = isExtra ? header : meant;
    const { name, size, type } = current;
    left = Math.ceil(size / BLOCK) * BLOCK;
    if (isExtra) {
      if (size > MAX_EXTRA_BYTES) throw new ArchiveError("The archive has a header that is too long");
      kept = new Uint8Array(size);
    } else {
      extra = {};
      const isFile = type === "0" || type === "\0" || type === "7";
      if (type === "5" || (isFile && name.endsWith("/"))) takeFolder(name, size);
      else if (isFile) takeFile(name);
      else refuseKind(name, KINDS[type] ?? `of the unknown kind ${JSON.stringify(type)}`);
    }
    if (left === 0) finishContent();
  }

  /** A folder by its type, or in the old form of tar. Some programs read the next entry from a folder's content. */
  function takeFolder(name: string, size: number) {
    if (size > 0) throw new ArchiveError(`The folder ${JSON.stringify(name.slice(0, 120))} has content`);
    ledger.folder(name);
    sink.folder(name);
  }

  function takeFile(name: string) {
    ledger.file(name);
    sink.open(name);
  }

  function add(more: { path?: string; size?: number }) {
    if (extra.path !== undefined && more.path !== undefined && extra.path !== more.path)
      throw new ArchiveError("The archive has an entry with two names"); // programs disagree which name counts
    extra = { ...extra, ...more };
  }

  function finishContent() {
    if (kept && current?.type === "L") add({ path: nameOf(untilZero(kept)) });
    if (kept && current?.type === "x") add(readPax(kept));
    if (kept && current?.type === "g") {
      const all = readPax(kept);
      if (all.path !== undefined || all.size !== undefined)
        throw new ArchiveError("The archive sets one name or size for all of its entries, which is not supported");
    }
    if (!kept) sink.close();
    kept = undefined;
    current = undefined;
  }

  function content(chunk: Uint8Array): number {
    const step = Math.min(left, chunk.length);
    const padded = Math.ceil((current?.size ?? 0) / BLOCK) * BLOCK;
    const at = padded - left;
    if (kept) kept.set(chunk.subarray(0, Math.max(0, Math.min(step, kept.length - at))), Math.min(at, kept.length));
    else pass(chunk.subarray(0, Math.max(0, Math.min(step, (current?.size ?? 0) - at))));
    left -= step;
    if (left === 0) finishContent();
    return step;
  }

  function pass(content: Uint8Array) {
    ledger.unpack(content.length, current?.name ?? "");
    sink.write(content);
  }

  function header(chunk: Uint8Array): number {
    const step = Math.min(BLOCK - filled, chunk.length);
    block.set(chunk.subarray(0, step), filled);
    filled += step;
    if (filled < BLOCK) return step;
    filled = 0;
    if (block.every((byte) => byte === 0)) ended = true;
    else if (ended) throw new ArchiveError("The archive continues after its end");
    else take(readHeader(block));
    return step;
  }

  return {
    push(chunk: Uint8Array) {
      ledger.pass(chunk.length, current?.name ?? "its end");
      for (let at = 0; at < chunk.length; ) {
        const rest = chunk.subarray(at);
        at += left > 0 ? content(rest) : header(rest);
      }
    },
    end() {
      if (left > 0 || filled > 0) throw new ArchiveError("The archive is truncated");
      return ledger.finish();
    },
  };
}

const untilZero = (bytes: Uint8Array) => {
  const end = bytes.indexOf(0);
  return end < 0 ? bytes : bytes.subarray(0, end);
};
const ascii = (bytes: Uint8Array) => new TextDecoder("latin1").decode(untilZero(bytes));

function readHeader(block: Uint8Array): Header {
  const sum = block.reduce((total, byte, i) => total + (i >= 148 && i < 156 ? 32 : byte), 0);
  if (readNumber(block.subarray(148, 156)) !== sum)
    throw new ArchiveError("The file is not a tar archive, or it is damaged");
  const name = nameOf(untilZero(block.subarray(0, 100)));
  // GNU's magic continues with blanks, and has no prefix field
  const isUstar = ascii(block.subarray(257, 263)) === "ustar";
  const prefix = isUstar ? nameOf(untilZero(block.subarray(345, 500))) : "";
  return {
    name: prefix === "" ? name : `${prefix}/${name}`,
    size: mustRead(block.subarray(124, 136)),
    type: String.fromCharCode(block[156] ?? 0),
  };
}

/** Octal text, or GNU's binary form for larger numbers. NaN if it is neither. */
function readNumber(field: Uint8Array): number {
  const first = field[0] ?? 0;
  if (first & 0x80) return [first & 0x7f, ...field.subarray(1)].reduce((total, byte) => total * 256 + byte, 0);
  const digits = /^ *([0-7]*) *$/.exec(ascii(field))?.[1];
  return digits === undefined ? Number.NaN : Number.parseInt(digits || "0", 8);
}

function mustRead(field: Uint8Array): number {
  const value = readNumber(field);
  if (!Number.isSafeInteger(value)) throw new ArchiveError("The archive has a number that cannot be read");
  return value;
}

/** Records `LENGTH key=value\n`, the length counting itself. */
function readPax(bytes: Uint8Array): { path?: string; size?: number } {
  const header: { path?: string; size?: number } = {};
  for (let at = 0; at < bytes.length; ) {
    const space = bytes.indexOf(32, at);
    const length = space < 0 ? Number.NaN : Number(ascii(bytes.subarray(at, space)));
    const record = bytes.subarray(space + 1, at + length - 1);
    const equals = record.indexOf(61);
    if (!(length > space - at) || at + length > bytes.length || bytes[at + length - 1] !== 10 || equals < 0)
      throw new ArchiveError("The archive has a pax header that cannot be read");
    const key = nameOf(record.subarray(0, equals));
    const value = record.subarray(equals + 1);
    if (key === "path") header.path = nameOf(value);
    if (key === "size") header.size = Number(ascii(value));
    if (key.startsWith("GNU.sparse")) throw new ArchiveError("The archive has a sparse file, which is not supported");
    at += length;
  }
  if (header.size !== undefined && !(Number.isSafeInteger(header.size) && header.size >= 0))
    throw new ArchiveError("The archive has a size that cannot be read");
  return header;
}
