/** Builds archives byte by byte, so that a test can make an invalid one. */
import { deflateRawSync, gzipSync } from "node:zlib";

const BLOCK = 512;
const text = new TextEncoder();

export type TarEntry = {
  name: string;
  type?: string;
  content?: string | Uint8Array;
  size?: number;
  prefix?: string;
  /** Seconds since 1970. */
  mtime?: number;
};

export function tarBlock({ name, type = "0", content = "", size, prefix = "", mtime }: TarEntry): Uint8Array {
  const body = typeof content === "string" ? text.encode(content) : content;
  const block = new Uint8Array(BLOCK + Math.ceil(body.length / BLOCK) * BLOCK);
  const put = (value: string | Uint8Array, at: number) =>
    block.set(typeof value === "string" ? text.encode(value) : value, at);
  put(name, 0);
  put("0000644\0", 100);
  put(`${(size ?? body.length).toString(8).padStart(11, "0")}\0`, 124);
  if (mtime !== undefined) put(`${mtime.toString(8).padStart(11, "0")}\0`, 136);
  put("        ", 148);
  put(type, 156);
  put("ustar\u000000", 257);
  put(prefix, 345);
  const sum = block.subarray(0, BLOCK).reduce((total, byte) => total + byte, 0);
  put(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  put(body, BLOCK);
  return block;
}

/** Returns `LENGTH key=value\n`. The length includes its own digits. */
export function paxRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  const bytes = text.encode(rest).length;
  const digits = String(bytes + String(bytes).length).length;
  return `${bytes + digits}${rest}`;
}

export const tar = (...entries: TarEntry[]): Uint8Array =>
  Buffer.concat([...entries.map(tarBlock), new Uint8Array(2 * BLOCK)]);
export const tarGz = (...entries: TarEntry[]): Uint8Array<ArrayBuffer> => new Uint8Array(gzipSync(tar(...entries)));

export type ZipFile = {
  name: string;
  content?: string | Uint8Array;
  stored?: boolean;
  /** Unix mode, with the file type. */
  mode?: number;
  flags?: number;
  method?: number;
  /** Different values for the central directory. */
  says?: { name?: string; bytes?: number; local?: number; crc?: number; packed?: number };
  /** Extra fields and comment in the central directory. */
  extra?: Uint8Array;
  comment?: Uint8Array;
  /** Bytes after the entry. */
  gap?: Uint8Array;
};

export function zip(...files: ZipFile[]): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let at = 0;
  for (const file of files) {
    const { local, central } = zipEntry(file, at);
    parts.push(local);
    directory.push(central);
    at += local.length;
  }
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(files.length, 8);
  end.writeUInt16LE(files.length, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(at, 16);
  return new Uint8Array(Buffer.concat([...parts, central, end]));
}

function zipEntry(file: ZipFile, at: number) {
  const { name, content = "", stored = false, mode = 0o100644, flags = 0x800, says = {} } = file;
  const { extra = new Uint8Array(), comment = new Uint8Array(), gap = new Uint8Array() } = file;
  const raw = typeof content === "string" ? text.encode(content) : content;
  const packed = stored ? raw : deflateRawSync(raw);
  const method = file.method ?? (stored ? 0 : 8);
  const head = (size: number, signature: number) => {
    const bytes = Buffer.alloc(size);
    bytes.writeUInt32LE(signature, 0);
    return bytes;
  };
  const local = head(30, 0x04034b50);
  local.writeUInt16LE(flags, 6);
  local.writeUInt16LE(method, 8);
  local.writeUInt32LE(packed.length, 18);
  local.writeUInt32LE(raw.length, 22);
  local.writeUInt16LE(text.encode(name).length, 26);
  const shown = text.encode(says.name ?? name);
  const central = head(46, 0x02014b50);
  central.writeUInt16LE(flags, 8);
  central.writeUInt16LE(method, 10);
  central.writeUInt32LE(says.crc ?? Bun.hash.crc32(raw), 16);
  central.writeUInt32LE(says.packed ?? packed.length, 20);
  central.writeUInt32LE(says.bytes ?? raw.length, 24);
  central.writeUInt16LE(shown.length, 28);
  central.writeUInt16LE(extra.length, 30);
  central.writeUInt16LE(comment.length, 32);
  central.writeUInt32LE((mode << 16) >>> 0, 38);
  central.writeUInt32LE(says.local ?? at, 42);
  return {
    local: Buffer.concat([local, text.encode(name), packed, gap]),
    central: Buffer.concat([central, shown, extra, comment]),
  };
}
