/** One package of bun.lock, for a build that needs what `bun install` does not put on this machine. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

type Locked = { spec: string; integrity: string };

/** `lock` is the text of bun.lock, where a package has a line: "NAME": ["NAME@VERSION", …, "sha512-…"], */
export function lockedPackage(lock: string, name: string): Locked {
  const line = lock.split("\n").find((each) => each.trim().startsWith(`${JSON.stringify(name)}: [`)) ?? "";
  const [, spec, integrity] = /: \["([^"]+)",.*"(sha512-[^"]+)"\],?$/.exec(line.trim()) ?? [];
  if (!spec?.startsWith(`${name}@`) || !integrity) throw new Error(`bun.lock has no package ${name}`);
  return { spec, integrity };
}

/**
 * Puts the package into `dir`, unless it is there. The hash is compared with the lockfile before anything is unpacked.
 */
export function fetchLocked(root: string, name: string, dir: string): string {
  const { spec, integrity } = lockedPackage(readFileSync(join(root, "bun.lock"), "utf8"), name);
  const stamp = join(dir, ".integrity");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === integrity) return dir;
  const temp = `${dir}.${process.pid}`;
  try {
    mkdirSync(temp, { recursive: true });
    run(["npm", "pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", temp, spec], `fetch ${spec}`);
    const file = join(temp, readdirSync(temp).find((each) => each.endsWith(".tgz")) ?? "");
    const got = `sha512-${createHash("sha512").update(readFileSync(file)).digest("base64")}`;
    if (got !== integrity)
      throw new Error(`${spec} does not match bun.lock: its hash is ${got}, expected ${integrity}`);
    run(["tar", "-xzf", file, "-C", temp], `unpack ${spec}`);
    writeFileSync(join(temp, "package/.integrity"), integrity);
    rmSync(dir, { recursive: true, force: true });
    mkdirSync(dirname(dir), { recursive: true });
    renameSync(join(temp, "package"), dir);
    return dir;
  } finally {
    rmSync(temp, { recursive: true, force: true });
  }
}

function run(argv: string[], what: string) {
  const ended = Bun.spawnSync(argv, { stderr: "pipe" });
  if (!ended.success) throw new Error(`${argv[0]} could not ${what}:\n${ended.stderr.toString().trim()}`);
}
