/** Collects what the command of a custom job has left: new and changed files of writable volumes, and the output. */
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TarEntry, tarChunks } from "../../lib/archive/tar_write.ts";
import { errorText } from "../../lib/error_text.ts";
import { syncDir, UNCOUNTED, writeTemp } from "../../platform/files.ts";
import {
  type CustomPlan,
  checkpointsDir,
  RESULTS,
  RESULTS_ARCHIVE,
  RESULTS_LIST,
} from "../../platform/providers/protocol.ts";
import { openCollection } from "../../sandbox/files/collect.ts";
import type { ForeignDir } from "../../sandbox/files/foreign_dir.ts";
import { OUTPUT } from "../../sandbox/jail/custom_jail.ts";

const WORKSPACE = "/workspace/";

/** Hashes of the files of each volume before the command, by path. */
export type Before = readonly ReadonlyMap<string, string>[];

type Left = { root: string; job: string; custom: CustomPlan; work: ForeignDir; before: Before };

/** The folder that the server pulls gets its name last. */
export async function collectResults({ root, job, custom, work, before }: Left) {
  const entries: TarEntry[] = [];
  const faults: string[] = [];
  const closers: (() => void)[] = [];
  const removed: [string, string][][] = custom.volumes.map(() => []);
  const take = async (below: string, isWanted: (path: string, sha256: () => Promise<string>) => Promise<boolean>) => {
    const collection = openCollection(work, below);
    closers.push(collection.close);
    const { files, skipped, hidden } = await collection.scan();
    if (hidden) faults.push(`${below}: some directories cannot be read or are too deep; their files were not kept`);
    for (const [path, why] of skipped) faults.push(`${below}/${path} was not kept: ${why}`);
    for (const [path, { bytes: size }] of files) {
      const fault = collection.faultOf(path);
      if (fault !== undefined) faults.push(`${below}/${path} was not kept: ${fault}`);
      else if (await isWanted(path, () => collection.sha256(path)))
        entries.push({ name: `${below}/${path}`, size, content: () => collection.content(path, size) });
    }
    return { has: (path: string) => hidden || files.has(path) || skipped.has(path) };
  };
  const attempt = (work: Promise<void>) => work.catch((error) => void faults.push(errorText(error)));
  try {
    for (const [i, { path, read_only }] of custom.volumes.entries()) {
      const hashes = before[i] ?? new Map();
      const changed = async () => {
        const present = await take(
          path.slice(WORKSPACE.length),
          async (at, sha256) => hashes.get(at) !== (await sha256()),
        );
        removed[i] = [...hashes].filter(([at]) => !present.has(at));
      };
      if (!read_only) await attempt(changed());
    }
    await attempt(take(OUTPUT, async () => true).then(() => {}));
    const into = join(root, checkpointsDir(job));
    const temp = join(into, ".results");
    rmSync(temp, { recursive: true, force: true });
    mkdirSync(temp, { recursive: true, mode: 0o700 });
    await writeTemp(join(temp, RESULTS_ARCHIVE), tarChunks(entries), { meter: UNCOUNTED });
    writeFileSync(join(temp, RESULTS_LIST), JSON.stringify({ removed, faults: faults.slice(0, 100) }), { mode: 0o600 });
    await syncDir(temp);
    rmSync(join(into, RESULTS), { recursive: true, force: true });
    renameSync(temp, join(into, RESULTS));
    await syncDir(into);
  } finally {
    for (const close of closers) close();
  }
}
