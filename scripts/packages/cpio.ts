/** A cpio archive in the format `newc`, the payload of an RPM package. */
export type CpioEntry = { path: string; mode: number; inode: number; seconds: number; content: Uint8Array };

const DIRECTORY = 0o040000;
const FORMAT_MASK = 0o170000;

/** `mode` contains the kind of the file. Names begin with `./`. */
export function cpio(entries: readonly CpioEntry[]): Uint8Array {
  const end: CpioEntry = { path: "TRAILER!!!", mode: 0, inode: 0, seconds: 0, content: new Uint8Array() };
  return Buffer.concat([...entries.flatMap((entry) => member(entry, `.${entry.path}`)), ...member(end, end.path)]);
}

function member({ mode, inode, seconds, content }: CpioEntry, name: string): Uint8Array[] {
  const links = (mode & FORMAT_MASK) === DIRECTORY ? 2 : 1;
  const nameBytes = new TextEncoder().encode(`${name}\0`);
  const device = [0, 0, 0, 0];
  const numbers = [inode, mode, 0, 0, links, seconds, content.byteLength, ...device, nameBytes.byteLength, 0];
  const head = `070701${numbers.map((value) => value.toString(16).padStart(8, "0")).join("")}`;
  const start = Buffer.concat([new TextEncoder().encode(head), nameBytes]);
  return [start, gapAfter(start.byteLength), content, gapAfter(content.byteLength)];
}

const gapAfter = (length: number) => new Uint8Array((4 - (length % 4)) % 4);
