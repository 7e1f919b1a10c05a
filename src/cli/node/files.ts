/** Files of the work directory. Every path comes from the server and must have one of the known forms. */
import { existsSync, mkdirSync, statSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { isHeld } from "../../platform/db/data_lock.ts";
import { sha256File, UNCOUNTED, writeStreamAtomic } from "../../platform/files.ts";
import { CHECKPOINT, checkpointsDir, Handle, jobDir, RemoteFile, SHA256 } from "../../platform/providers/protocol.ts";

const NAME = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,100}";
const JOB = "jobs/job_[0-9a-hjkmnp-tv-z]{26}";
const ALLOWED = new RegExp(`^(models/[0-9a-f]{64}\\.gguf|${JOB}/(inputs|checkpoints/step-\\d{1,12})(/${NAME})?)$`);

export function pathIn(root: string, path: string): string {
  if (!ALLOWED.test(path)) throw new Error(`not a path of the work directory: ${path.slice(0, 120)}`);
  return join(root, path);
}

const jobOf = (job: string) => jobDir(Handle.parse({ job, attempt: 1 }).job);

/** Paths of the files that are absent or differ. A model's name is its hash, which was checked when it was written. */
export async function lackingFiles(root: string, files: unknown): Promise<string[]> {
  const lacking: string[] = [];
  for (const { path, sha256, bytes } of z.array(RemoteFile).parse(files)) {
    const at = pathIn(root, path);
    const isThere = statSync(at, { throwIfNoEntry: false })?.size === bytes;
    const isSame = isThere && (path.startsWith("models/") || (await sha256File(at)) === sha256);
    if (!isSame) lacking.push(path);
  }
  return lacking;
}

/** Takes the content from standard input. A file with another hash is not kept. */
export async function putFile(root: string, path: string, sha256: string): Promise<{ bytes: number }> {
  const at = pathIn(root, path);
  mkdirSync(dirname(at), { recursive: true, mode: 0o700 });
  const { bytes } = await writeStreamAtomic(at, Bun.stdin.stream(), {
    expectedSha256: z.string().regex(SHA256).parse(sha256),
    meter: UNCOUNTED,
  });
  return { bytes };
}

/** Empty if the directory is missing. */
export async function listFiles(root: string, path: string): Promise<RemoteFile[]> {
  const dir = pathIn(root, path);
  if (!existsSync(dir)) return [];
  const files: RemoteFile[] = [];
  for (const { name } of (await readdir(dir, { withFileTypes: true })).filter((entry) => entry.isFile())) {
    const each = `${path}/${name}`;
    const at = pathIn(root, each);
    files.push({ path: each, sha256: await sha256File(at), bytes: statSync(at).size });
  }
  return files;
}

export async function catFile(root: string, path: string): Promise<undefined> {
  await Bun.write(Bun.stdout, Bun.file(pathIn(root, path)));
  return undefined;
}

/** Deletes the checkpoints in `drop`, and returns the names of the others. */
export async function listCheckpoints(root: string, job: string, drop: readonly string[]): Promise<string[]> {
  jobOf(job);
  const dir = join(root, checkpointsDir(job));
  for (const name of drop.filter((each) => CHECKPOINT.test(each)))
    await rm(join(dir, name), { recursive: true, force: true });
  const names = existsSync(dir) ? await readdir(dir) : [];
  return names.filter((name) => CHECKPOINT.test(name)).sort();
}

export async function removeJob(root: string, job: string): Promise<null> {
  const dir = join(root, jobOf(job));
  if (existsSync(dir) && isHeld(dir).held) throw new Error(`the job ${job} still runs`);
  await rm(dir, { recursive: true, force: true });
  return null;
}
