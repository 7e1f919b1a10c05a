import { ArchiveError, type Ledger, nameOf, refuseKind } from "../../lib/archive/entries.ts";

/**
 * Reads the directory at the end of a zip archive, which repeats the headers of the entries. If both differ, or two
 * entries share bytes, another program could see different content: such an archive is rejected.
 */
export type ReadZip = (offset: number, length: number) => Promise<Uint8Array>;
export type ZipEntry = {
  name: string;
  method: "stored" | "deflated";
  crc32: number;
  packedBytes: number;
  bytes: number;
  /** Start of its content in the file. */
  offset: number;
};

const END_BYTES = 22;
const END64_BYTES = 56;
const LOCATOR64_BYTES = 20;
const MAX_GAP_BYTES = 24; // an entry's sizes may follow its content; no entry fits in this gap
const MAX_COMMENT = 65_535;
const MAX_DIRECTORY_BYTES = 32 * 2 ** 20;
const [END, END64, LOCATOR64, CENTRAL, LOCAL] = [0x06054b50, 0x06064b50, 0x07064b50, 0x02014b50, 0x04034b50];
const ENCRYPTED = 0x0001 | 0x0040 | 0x2000;
const SIZES_FOLLOW = 0x0008; // the sizes follow the content

const viewOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const differs = (name: string) => damaged(`its directory and its entry ${JSON.stringify(name)} differ`);
const damaged = (what: string) => new ArchiveError(`The file is not a zip archive, or it is damaged: ${what}`);

type Directory = { entries: number; size: number; offset: number };

export async function readZip(read: ReadZip, fileBytes: number, ledger: Ledger): Promise<ZipEntry[]> {
  const { entries: count, size, offset } = await findDirectory(read, fileBytes);
  if (size > MAX_DIRECTORY_BYTES) throw new ArchiveError("The archive has too many entries");
  const central = await read(offset, size);
  const entries: ZipEntry[] = [];
  let [at, seen, free] = [0, 0, 0]; // free: the earliest start of the next entry
  const listed: (Central & { end: number })[] = [];
  while (at < central.length) {
    const entry = readCentral(central, at);
    at += entry.length;
    seen++;
    if (entry.isFolder) ledger.folder(entry.name);
    else ledger.file(entry.name);
    listed.push({ ...entry, end: 0 });
  }
  if (seen !== count) throw damaged("its directory does not have the number of entries that it claims");
  for (const entry of listed.sort((a, b) => a.local - b.local)) {
    if (entry.local < free) throw new ArchiveError(`${JSON.stringify(entry.name)} shares its bytes with another entry`);
    requireNoGap(free, entry.local);
    const start = await checkLocal(read, entry, offset);
    free = start + entry.packedBytes;
    if (free > offset) throw damaged(`${JSON.stringify(entry.name)} is truncated`);
    if (entry.isFolder && entry.bytes > 0) throw damaged(`the folder ${JSON.stringify(entry.name)} has content`);
    if (!entry.isFolder) entries.push({ ...entry, offset: start });
  }
  if ((listed[0]?.local ?? 0) !== 0) throw damaged("it does not begin with its first entry");
  requireNoGap(free, offset);
  return entries;
}

function requireNoGap(from: number, to: number) {
  if (to - from > MAX_GAP_BYTES) throw damaged("there is data between its entries");
}

/** Requires one end record at the end of the file, directly after the directory: no program can find another one. */
async function findDirectory(read: ReadZip, fileBytes: number): Promise<Directory> {
  const length = Math.min(fileBytes, END_BYTES + MAX_COMMENT);
  const tail = await read(fileBytes - length, length);
  const view = viewOf(tail);
  let at = tail.length - END_BYTES;
  while (at >= 0 && view.getUint32(at, true) !== END) at--;
  if (at < 0) throw damaged("its end is missing");
  if (at + END_BYTES + view.getUint16(at + 20, true) !== tail.length)
    throw damaged("its end is missing, or it has a second end");
  const short = {
    entries: view.getUint16(at + 10, true),
    size: view.getUint32(at + 12, true),
    offset: view.getUint32(at + 16, true),
  };
  const end = fileBytes - length + at;
  const large = await findDirectory64(read, end, short);
  if (view.getUint16(at + 4, true) !== 0 && !large) throw damaged("it is one of several parts");
  const { offset, size } = large ?? short;
  if (offset + size !== (large?.at ?? end)) throw damaged("its directory is not right before its end");
  return large ?? short;
}

/** Reads the 64-bit record. It replaces values that do not fit the short record, and must agree with the others. */
async function findDirectory64(read: ReadZip, end: number, short: Directory) {
  const needed = short.entries === 0xffff || short.size === 0xffffffff || short.offset === 0xffffffff;
  const at = end - LOCATOR64_BYTES - END64_BYTES;
  const record = at < 0 ? undefined : viewOf(await read(at, END64_BYTES + LOCATOR64_BYTES));
  if (record?.getUint32(END64_BYTES, true) !== LOCATOR64) {
    if (needed) throw damaged("its end is missing");
    return undefined;
  }
  if (record.getUint32(0, true) !== END64 || whole(record.getBigUint64(END64_BYTES + 8, true)) !== at)
    throw damaged("it has a second end");
  const [entries = 0, size = 0, offset = 0] = [32, 40, 48].map((field) => whole(record.getBigUint64(field, true)));
  const agrees =
    (short.entries === 0xffff || short.entries === entries) &&
    (short.size === 0xffffffff || short.size === size) &&
    (short.offset === 0xffffffff || short.offset === offset);
  if (!agrees) throw damaged("it has a second end that differs from the first");
  return { entries, size, offset, at };
}

function whole(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw damaged("it has an impossible number");
  return Number(value);
}

type Central = Omit<ZipEntry, "offset"> & {
  raw: Uint8Array;
  isFolder: boolean;
  local: number;
  /** Length of this record in the directory. */
  length: number;
};

function readCentral(directory: Uint8Array, at: number): Central {
  const view = viewOf(directory);
  if (at + 46 > directory.length || view.getUint32(at, true) !== CENTRAL) throw damaged("its directory cannot be read");
  const [nameBytes, extraBytes, commentBytes] = [28, 30, 32].map((field) => view.getUint16(at + field, true));
  const length = 46 + (nameBytes ?? 0) + (extraBytes ?? 0) + (commentBytes ?? 0);
  if (at + length > directory.length) throw damaged("its directory is truncated");
  const raw = directory.subarray(at + 46, at + 46 + (nameBytes ?? 0));
  const name = nameOf(raw);
  const method = view.getUint16(at + 10, true);
  if (view.getUint16(at + 8, true) & ENCRYPTED) throw new ArchiveError(`${JSON.stringify(name)} is encrypted`);
  if (method !== 0 && method !== 8)
    throw new ArchiveError(`${JSON.stringify(name)} is compressed with method ${method}. Use deflate`);
  requireFileOrFolder(name, view.getUint32(at + 38, true));
  const extra = directory.subarray(at + 46 + raw.length, at + 46 + raw.length + (extraBytes ?? 0));
  const sizes = readSizes(view, at, extra);
  const other = extraField(extra, 0x7075)?.subarray(5); // a second name that some programs prefer
  if (other && Buffer.compare(other, raw) !== 0) throw differs(name);
  return {
    name,
    raw,
    length,
    ...sizes,
    crc32: view.getUint32(at + 16, true),
    isFolder: name.endsWith("/"),
    method: method === 0 ? "stored" : "deflated",
  };
}

/** The Unix mode, in the upper half of the attributes; 0 for archives made elsewhere. */
function requireFileOrFolder(name: string, attributes: number) {
  const kind = (attributes >>> 16) & 0xf000;
  if (kind === 0xa000) refuseKind(name, "a symbolic link");
  if (kind !== 0 && kind !== 0x8000 && kind !== 0x4000) refuseKind(name, "a device or a pipe");
}

/** Reads sizes and position. Values beyond 32 bits are in an extra field, in this order. */
function readSizes(view: DataView, at: number, extra: Uint8Array) {
  const large = extraField(extra, 0x0001);
  let next = 0;
  const read = (field: number) => {
    const short = view.getUint32(at + field, true);
    if (short !== 0xffffffff) return short;
    if (!large || next + 8 > large.length) throw damaged("a size is missing");
    next += 8;
    return whole(viewOf(large).getBigUint64(next - 8, true));
  };
  const bytes = read(24);
  const packedBytes = read(20);
  return { bytes, packedBytes, local: read(42) };
}

function extraField(extra: Uint8Array, id: number): Uint8Array | undefined {
  const view = viewOf(extra);
  for (let at = 0; at + 4 <= extra.length; at += 4 + view.getUint16(at + 2, true))
    if (view.getUint16(at, true) === id) return extra.subarray(at + 4, at + 4 + view.getUint16(at + 2, true));
  return undefined;
}

/** Returns the start of the content. */
async function checkLocal(read: ReadZip, entry: Central, end: number): Promise<number> {
  if (entry.local + 30 > end) throw damaged(`${JSON.stringify(entry.name)} is outside the archive`);
  const head = viewOf(await read(entry.local, 30));
  const nameBytes = head.getUint16(26, true);
  const name = await read(entry.local + 30, Math.min(nameBytes, end - entry.local - 30));
  const same =
    head.getUint32(0, true) === LOCAL &&
    Buffer.compare(name, entry.raw) === 0 &&
    head.getUint16(8, true) === (entry.method === "stored" ? 0 : 8) &&
    (head.getUint16(6, true) & SIZES_FOLLOW || [entry.packedBytes, 0xffffffff].includes(head.getUint32(18, true)));
  if (!same) throw differs(entry.name);
  return entry.local + 30 + nameBytes + head.getUint16(28, true);
}
