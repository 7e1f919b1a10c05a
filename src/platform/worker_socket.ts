import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const SUN_PATH_BYTES = 107; // sockaddr_un holds 108 with the final NUL

/** Where a worker may listen: in `dir`, or in a private temporary directory when that path is too long for a socket. */
export function placeSocket(dir: string, id: string): { path: string; remove: () => void } {
  const path = join(dir, `${id}.sock`);
  if (Buffer.byteLength(path) <= SUN_PATH_BYTES) return { path, remove: () => rmSync(path, { force: true }) };
  const short = mkdtempSync(join(tmpdir(), "verk-"));
  return { path: join(short, "s"), remove: () => rmSync(short, { recursive: true, force: true }) };
}
