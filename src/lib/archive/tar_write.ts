/** A tar archive (ustar) of a few files, as a stream. */
export type TarEntry = { name: string; size: number; mode?: number; content: () => AsyncIterable<Uint8Array> };

/** `seconds`: time of the last change. `owner`: number of the user, and of the group with the same number. */
export type TarStamp = { seconds?: number; owner?: number };

export const TAR_BLOCK = 512;
const BLOCK = TAR_BLOCK;
const MOST_NAME = 100;
const MOST_SIZE = 8 ** 11; // eleven octal digits

export async function* tarChunks(entries: readonly TarEntry[]): AsyncGenerator<Uint8Array> {
  for (const { name, size, mode, content } of entries) {
    if (bytesOf(name).length > MOST_NAME) yield* longName(name);
    yield tarHeader(name, size, "0", mode);
    let written = 0;
    for await (const chunk of content()) {
      written += chunk.byteLength;
      yield chunk;
    }
    if (written !== size) throw new Error(`${name} has ${written} bytes: ${size} were announced`);
    yield new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);
  }
  yield tarEnd();
}

/** The length of the archive of these files. */
export function tarBytes(entries: readonly Pick<TarEntry, "name" | "size">[]): number {
  const padded = (bytes: number) => Math.ceil(bytes / BLOCK) * BLOCK;
  return entries.reduce((sum, { name, size }) => {
    const long = bytesOf(name).length > MOST_NAME ? BLOCK + padded(paxRecord(name).length) : 0;
    return sum + long + BLOCK + padded(size);
  }, 2 * BLOCK);
}

/** The length of an archive without files, which a reader of archives refuses. */
export const EMPTY_TAR_BYTES = 2 * BLOCK;

/** One small file, whole. Follow the last one with `tarEnd`. */
export function* tarEntry(
  name: string,
  content: Uint8Array,
  mode: number,
  stamp: TarStamp = {},
): Generator<Uint8Array> {
  yield tarHeader(name, content.byteLength, "0", mode, stamp);
  yield content;
  yield new Uint8Array((BLOCK - (content.byteLength % BLOCK)) % BLOCK);
}
export const tarEnd = () => new Uint8Array(2 * BLOCK);

const bytesOf = (text: string) => new TextEncoder().encode(text);

/** A pax header before the entry: a name that does not fit into the entry's own. */
function* longName(name: string): Generator<Uint8Array> {
  const record = paxRecord(name);
  yield tarHeader("pax", record.length, "x");
  yield record;
  yield new Uint8Array((BLOCK - (record.length % BLOCK)) % BLOCK);
}

function paxRecord(name: string): Uint8Array {
  const rest = ` path=${name}\n`;
  let length = bytesOf(rest).length + 1; // it counts its own digits
  while (String(length).length + bytesOf(rest).length !== length) length++;
  return bytesOf(`${length}${rest}`);
}

/** The same bytes for the same file, at any time and on any machine. */
export function tarHeader(
  name: string,
  size: number,
  type: "0" | "5" | "x" = "0",
  mode = 0o644,
  { seconds = 0, owner = 0 }: TarStamp = {},
): Uint8Array {
  const block = new Uint8Array(BLOCK);
  const put = (at: number, text: string) => block.set(bytesOf(text).subarray(0, MOST_NAME), at);
  if (size >= MOST_SIZE) throw new RangeError(`${name} is too large for an archive`);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;
  put(0, name);
  put(100, octal(mode, 7));
  put(108, octal(owner, 7));
  put(116, octal(owner, 7));
  put(124, octal(size, 11));
  put(136, octal(seconds, 11));
  put(148, " ".repeat(8)); // the sum counts itself as blanks
  put(156, type);
  put(257, "ustar\0");
  put(263, "00");
  const sum = block.reduce((total, byte) => total + byte, 0);
  put(148, `${sum.toString(8).padStart(6, "0")}\0 `);
  return block;
}
