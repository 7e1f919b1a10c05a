/** Compiles the C parts into .stage, unless the result there has the same sources. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Platform, platform } from "../../src/native/platform/index.ts";

const FLAGS = [
  "-std=c11",
  "-D_GNU_SOURCE",
  "-O2",
  "-s",
  "-Wall",
  "-Wextra",
  "-Wformat=2",
  "-Wshadow",
  "-Werror=implicit-function-declaration",
  "-fstack-protector-strong",
  "-D_FORTIFY_SOURCE=2",
  "-I../platform",
  "-Wl,--build-id=none",
  "-Wl,-z,noexecstack",
];

export type Part = {
  /** The folder below src/native that holds the sources, and below .stage that holds the result. */
  name: string;
  file: string;
  flags: readonly string[];
  /** Debian packages that a native build needs. */
  needs: string;
};

/** Code that runs from source takes the parts of this architecture directly from .stage. */
export const stageOf = (root: string, target: Platform) =>
  target.arch === platform.arch ? join(root, ".stage") : join(root, ".stage", target.name);

/** The path of the result. */
export function compilePart(root: string, part: Part, target: Platform = platform): string {
  const sources = join(root, "src/native", part.name);
  const dir = join(stageOf(root, target), part.name);
  const out = join(dir, part.file);
  // the same bytes wherever it is built
  const flags = [...FLAGS, ...part.flags, `-ffile-prefix-map=.=${part.file}`];
  const units = sourcesIn(sources, /\.c$/);
  const read = [...sourcesIn(sources, /\.[ch]$/), ...sourcesIn(join(sources, "../platform"), /\.h$/)];
  const contents = read.map((path) => readFileSync(path, "utf8"));
  const stamp = createHash("sha256")
    .update(JSON.stringify([flags, units.length, contents]))
    .digest("hex");
  if (existsSync(out) && readStamp(dir) === stamp) return out;
  const gcc = compilerFor(target, part);
  mkdirSync(dir, { recursive: true });
  const temp = `${out}.${process.pid}`;
  const names = units.map((path) => path.slice(sources.length + 1));
  const run = Bun.spawnSync([gcc, ...flags, "-o", temp, ...names], { cwd: sources, stderr: "pipe" });
  const said = run.stderr.toString().trim();
  if (!run.success) throw new Error(`src/native/${part.name} does not compile (${needsOf(target, part)}):\n${said}`);
  if (said !== "") console.error(said);
  renameSync(temp, out);
  writeFileSync(`${temp}.stamp`, stamp);
  renameSync(`${temp}.stamp`, join(dir, "stamp"));
  return out;
}

const needsOf = (target: Platform, part: Part) =>
  target.arch === platform.arch ? part.needs : `on Debian: apt-get install ${target.cross.packages.join(" ")}`;

function compilerFor(target: Platform, part: Part): string {
  const names = target.arch === platform.arch ? ["gcc", "cc"] : [target.cross.gcc];
  const found = names.map((name) => Bun.which(name)).find((path) => path !== null);
  if (!found) {
    throw new Error(`no C compiler for ${target.name}: src/native/${part.name} needs one; ${needsOf(target, part)}`);
  }
  return found;
}

const sourcesIn = (dir: string, keep: RegExp): string[] =>
  readdirSync(dir)
    .filter((name) => keep.test(name))
    .sort()
    .map((name) => join(dir, name));

const readStamp = (dir: string): string =>
  existsSync(join(dir, "stamp")) ? readFileSync(join(dir, "stamp"), "utf8") : "";
