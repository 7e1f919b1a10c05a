/** Small file systems. Mounting needs root; without it tests are skipped, and say so. */
import { rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../harness.ts";

export const sh = (...command: string[]) => Bun.spawnSync(command, { stderr: "pipe" });

const mounted: string[] = [];
const probe = tempDir();
export const CAN_MOUNT = sh("mount", "-t", "tmpfs", "tmpfs", probe).exitCode === 0;
if (CAN_MOUNT) sh("umount", probe);
rmSync(probe, { recursive: true });

export function smallDisk(): string {
  const dir = tempDir();
  const { exitCode, stderr } = sh("mount", "-t", "tmpfs", "-o", "size=12m,mode=700", "tmpfs", dir);
  if (exitCode !== 0) throw new Error(`mount: ${stderr}`);
  mounted.push(dir);
  return dir;
}

export function unmountAll() {
  for (const dir of mounted.splice(0)) {
    sh("umount", "-l", dir);
    rmSync(dir, { recursive: true, force: true });
  }
}

/** The file "filler" takes all that is free. */
export function fill(dir: string) {
  for (let size = statfsSync(dir).bavail * 4096; size >= 1; size = Math.floor(size / 2)) {
    try {
      writeFileSync(join(dir, "filler"), new Uint8Array(size), { flag: "a" });
    } catch {}
  }
}
