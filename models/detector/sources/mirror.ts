/** Reads files of a commit out of a git directory, without a work tree. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Source } from "./manifest.ts";

export type Entry = { path: string; blob: string; bytes: number };

/** `owner+name/repo`, with or without `.git`, or a plain clone `owner/name`. */
export function gitDirectory(mirrors: string, repo: string): string | undefined {
  const flat = join(mirrors, repo.replace("/", "+"));
  const candidates = [
    join(flat, "repo"),
    join(flat, "repo/.git"),
    flat,
    join(mirrors, repo, ".git"),
    join(mirrors, repo),
  ];
  return candidates.find((path) => existsSync(join(path, "HEAD")) && existsSync(join(path, "objects")));
}

async function git(directory: string, args: string[], input?: string): Promise<Uint8Array> {
  const child = Bun.spawn(["git", `--git-dir=${directory}`, ...args], {
    stdin: input === undefined ? "ignore" : new Blob([input]),
    stdout: "pipe",
    stderr: "pipe",
    env: { ...process.env, GIT_NO_LAZY_FETCH: "1" },
  });
  const [out, err] = await Promise.all([
    new Response(child.stdout).bytes(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (child.exitCode !== 0) throw new Error(`git ${args[0]} in ${directory}: ${err.trim()}`);
  return out;
}

export function matcher(patterns: readonly string[]): (path: string) => boolean {
  const wanted = patterns.filter((pattern) => !pattern.startsWith("!")).map((pattern) => new Bun.Glob(pattern));
  const unwanted = patterns
    .filter((pattern) => pattern.startsWith("!"))
    .map((pattern) => new Bun.Glob(pattern.slice(1)));
  return (path) => wanted.some((glob) => glob.match(path)) && !unwanted.some((glob) => glob.match(path));
}

/** A pointer to a file that is stored elsewhere (LFS) has about 130 bytes. */
export const LEAST_BYTES = 1024;

/** The files of a source whose bytes are in the mirror, in the order of their blob names: as good as drawn by lot. */
export async function entriesOf(directory: string, source: Pick<Source, "commit" | "paths">): Promise<Entry[]> {
  const matches = matcher(source.paths);
  const listed = new TextDecoder().decode(await git(directory, ["ls-tree", "-r", "-z", source.commit]));
  const paths = new Map<string, string>(); // blob → path: the same bytes twice are one file
  for (const row of listed.split("\0")) {
    const [about, path] = row.split("\t");
    if (path === undefined || !matches(path)) continue;
    const [, type, blob] = about!.split(" ");
    if (type === "blob" && !paths.has(blob!)) paths.set(blob!, path);
  }
  if (paths.size === 0) return [];
  const sizes = new TextDecoder().decode(
    await git(directory, ["cat-file", "--batch-check"], [...paths.keys()].join("\n")),
  );
  const entries = sizes.split("\n").flatMap((row) => {
    const [blob, type, bytes] = row.split(" ");
    const path = paths.get(blob!);
    if (path === undefined || type !== "blob" || Number(bytes) < LEAST_BYTES) return [];
    return [{ path, blob: blob!, bytes: Number(bytes) }];
  });
  return entries.sort((a, b) => (a.blob < b.blob ? -1 : 1));
}

export async function bytesOf(directory: string, blob: string): Promise<Uint8Array> {
  return git(directory, ["cat-file", "blob", blob]);
}
