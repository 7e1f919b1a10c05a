// tier: all (checks of a release)
import { afterAll, expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { readStamp } from "../../src/platform/updates/stamp.ts";
import { build } from "../release_kit.ts";

const ROOT = resolve(import.meta.dir, "../..");
mkdirSync(join(ROOT, "dist"), { recursive: true });
const temp = mkdtempSync(join(ROOT, "dist/checkout-")); // the same file system, so that packages can be links
afterAll(() => rmSync(temp, { recursive: true, force: true }));

function sh(...argv: string[]): string {
  const run = Bun.spawnSync(argv, { cwd: ROOT, stderr: "pipe" });
  if (!run.success) throw new Error(`${argv.join(" ")}: ${run.stderr}`);
  return run.stdout.toString();
}

/**
 * Another checkout of this source at `commit`, at a path of another length. It compiles everything again. Only compressed
 * libraries are shared: they are named by the hash of their content, and compressing them takes minutes.
 */
function checkoutOf(commit: string): string {
  const copy = join(temp, "another", "checkout");
  sh("git", "clone", "--quiet", "--shared", "--no-checkout", ROOT, copy);
  sh("git", "-C", copy, "update-ref", "--no-deref", "HEAD", sh("git", "rev-parse", commit).trim());
  const files = sh("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0");
  const isSource = (file: string) => !/^$|^test\/|\.test\.ts$/.test(file) && existsSync(join(ROOT, file));
  for (const file of files.filter(isSource)) {
    mkdirSync(dirname(join(copy, file)), { recursive: true });
    cpSync(join(ROOT, file), join(copy, file));
  }
  sh("cp", "--archive", "--link", join(ROOT, "node_modules"), copy);
  mkdirSync(join(copy, ".stage"));
  for (const name of readdirSync(join(ROOT, ".stage")).filter((each) => each.endsWith("-19.zst")))
    cpSync(join(ROOT, ".stage", name), join(copy, ".stage", name));
  return copy;
}

const sha256 = (file: string) => new Bun.CryptoHasher("sha256").update(readFileSync(file)).digest("hex");

test.skipIf(Bun.which("git") === null)(
  "two builds of a commit in different folders have the same bytes",
  () => {
    const first = build(join(ROOT, "dist/verk"), [], { fast: false });
    const copy = checkoutOf(readStamp(first).commit);
    const second = build(join(copy, "dist/verk"), [], { root: copy, fast: false });
    expect(sha256(second)).toBe(sha256(first));
    expect(readFileSync(`${second}.cdx.json`, "utf8")).toBe(readFileSync(`${first}.cdx.json`, "utf8"));
  },
  300_000,
);
