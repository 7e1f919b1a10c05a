/** Paths of directories that the server itself reaches by descriptor only, for tests that look at them or change them. */
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

/** A file below `<data>/jobs`, as the server names it. */
export const jobFile = (dataDir: string, path: string) => ({
  dir: jobDirAt(dataDir, path.slice(dataDir.length + 1).replace(/\/[^/]*$/, "")),
  name: basename(path),
});
