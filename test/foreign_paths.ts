/** Paths of foreign directories, for tests that read or change them. The server itself uses descriptors only. */
import { basename, join } from "node:path";
import type { Ctx } from "../src/context.ts";
import { jobDirAt } from "../src/sandbox/files/foreign_dir.ts";

export function jobPaths(ctx: Pick<Ctx, "config">, id: string) {
  const dir = join(ctx.config.data_dir, "jobs", id);
  return {
    dir,
    checkpoints: join(dir, "checkpoints"),
    log: join(dir, "log.ndjson"),
    work: join(dir, "work"),
    workspace: join(dir, "work/root/workspace"),
  };
}

/** A file below `<data>/jobs`, in the form that the server uses. */
export const jobFile = (dataDir: string, path: string) => ({
  dir: jobDirAt(dataDir, path.slice(dataDir.length + 1).replace(/\/[^/]*$/, "")),
  name: basename(path),
});
