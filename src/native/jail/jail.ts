/** Finds the helper that makes namespaces (src/native/jail/*.c), and makes the descriptors for it. */
import { existsSync, writeSync } from "node:fs";
import { join, resolve } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { compiled } from "../bundle/embedded.ts";
import { ensureGroup } from "../bundle/extract.ts";
import { addressOf, cString, NR, syscall } from "../syscalls.ts";

const NAME = "verk-jail";
const MFD_CLOEXEC = 1;
const O_CLOEXEC = 0o2000000;
const O_NONBLOCK = 0o4000;
const F_SETFL = 4;
const F_SETPIPE_SZ = 1031;

/** Path of the helper, which is extracted if needed. An uncompiled run uses the last build in .stage. */
export function jailPath(dataDir: string): string {
  if (compiled) return join(ensureGroup("jail", dataDir), NAME);
  const path = resolve(import.meta.dir, "../../../.stage/jail", NAME);
  if (!existsSync(path)) throw new UsageError(`${NAME} has not been built; run: bun scripts/bundle/jail.ts`);
  return path;
}

function must(result: number, what: string): number {
  if (result < 0) throw new Error(`${what} failed: error ${-result}`);
  return result;
}

/** Returns a descriptor to read `bytes` from. They are in memory and have no file name. */
export function memoryFile(bytes: Uint8Array): number {
  const name = cString("spec");
  const fd = must(syscall(NR.memfd_create, addressOf(name), MFD_CLOEXEC), "memfd_create");
  for (let at = 0; at < bytes.byteLength; ) at += writeSync(fd, bytes, at, bytes.byteLength - at, at);
  return fd;
}

/** Makes a real pipe. The pipes of Bun are sockets, which /dev/stdout cannot reopen. No other child inherits it. */
export function pipe(): { read: number; write: number } {
  const pair = new Int32Array(2);
  must(syscall(NR.pipe2, addressOf(pair), O_CLOEXEC), "pipe2");
  const [read = -1, write = -1] = pair;
  return { read, write };
}

/** Affects only this end of the pipe. */
export const neverBlock = (fd: number) => void syscall(NR.fcntl, fd, F_SETFL, O_NONBLOCK);

/** Enlarges the pipe if the host allows it. */
export const widenPipe = (fd: number, bytes: number) => void syscall(NR.fcntl, fd, F_SETPIPE_SZ, bytes);
