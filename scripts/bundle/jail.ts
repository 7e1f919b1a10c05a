/** Compiles src/native/jail into .stage/jail/verk-jail, unless what is there came from the same sources. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const FLAGS = [
  "-std=c11",
  "-D_GNU_SOURCE",
  "-O2",
  "-static",
  "-s",
  "-Wall",
  "-Wextra",
  "-Wformat=2",
  "-Wshadow",
  "-Werror=implicit-function-declaration",
  "-fstack-protector-strong",
  "-D_FORTIFY_SOURCE=2",
  "-ffile-prefix-map=.=verk-jail", // the same bytes wherever it is built
  "-Wl,--build-id=none",
  "-Wl,-z,noexecstack",
];
const NEEDS = "on Debian: apt-get install gcc libc6-dev; on RHEL: dnf install gcc glibc-static";

/** The path of the executable. */
export function buildJail(root: string): string {
  const sources = join(root, "src/native/jail");
  const dir = join(root, ".stage/jail");
  const out = join(dir, "verk-jail");
  const files = readdirSync(sources)
    .filter((name) => /\.[ch]$/.test(name))
    .sort();
  const contents = files.map((name) => `${name}\0${readFileSync(join(sources, name), "utf8")}`);
  const stamp = createHash("sha256")
    .update(JSON.stringify([FLAGS, contents]))
    .digest("hex");
  if (existsSync(out) && readStamp(dir) === stamp) return out;
  const gcc = Bun.which("gcc") ?? Bun.which("cc");
  if (gcc === null) throw new Error(`no C compiler: src/native/jail needs one; ${NEEDS}`);
  mkdirSync(dir, { recursive: true });
  const temp = `${out}.${process.pid}`;
  const units = files.filter((name) => name.endsWith(".c"));
  const run = Bun.spawnSync([gcc, ...FLAGS, "-o", temp, ...units], { cwd: sources, stderr: "pipe" });
  const said = run.stderr.toString().trim();
  if (!run.success) throw new Error(`src/native/jail does not compile (is there a static libc? ${NEEDS}):\n${said}`);
  if (said !== "") console.error(said);
  renameSync(temp, out);
  writeFileSync(join(dir, "stamp"), stamp);
  return out;
}

const readStamp = (dir: string): string =>
  existsSync(join(dir, "stamp")) ? readFileSync(join(dir, "stamp"), "utf8") : "";

if (import.meta.main) console.log(buildJail(dirname(dirname(import.meta.dir))));
