/** Reads files by several threads: one alone copies from the page cache more slowly than a card takes it. */
import { openShim } from "./shim.ts";

const THREADS = 4;

/** `into` may be memory that no JavaScript owns. Throws if the file has fewer bytes. */
export function openReader(dataDir: string) {
  const { verk_read } = openShim(dataDir);
  return (fd: number, into: Uint8Array, position: number) => {
    const code = verk_read(fd, into, into.byteLength, position, THREADS);
    if (code === -1) throw new Error("The model file was truncated while it was read");
    if (code !== 0) throw new Error(`The model file cannot be read: errno ${code}`);
  };
}
