/** The file of a model, read by ranges. It lies in a folder of the server's own. */
import { statSync } from "node:fs";
import type { PushedFile } from "./contents.ts";

export function modelFile(disk: string): Pick<PushedFile, "size" | "disk" | "open"> | undefined {
  const stats = statSync(disk, { throwIfNoEntry: false });
  if (!stats) return undefined;
  const open = async (offset: number, bytes: number) =>
    Bun.file(disk)
      .slice(offset, offset + bytes)
      .stream();
  return { size: stats.size, disk, open };
}
