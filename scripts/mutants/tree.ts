/** A copy of the checkout in which mutants are tried, so that the checkout itself never changes. */
import { copyFileSync, existsSync, mkdirSync, readdirSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * Below the checkout: sandboxes hide /tmp, and packages can be hard links on the same file system. A plain `bun test` does
 * not look into folders whose name begins with a dot.
 */
const COPIES = "coverage/.mutants";

/** The files as they are now, committed or not, with packages and build outputs, but without an executable. */
export function copyTree(root: string, name: string): string {
  const copy = join(root, COPIES, name);
  rmSync(copy, { recursive: true, force: true });
  for (const file of run(root, "git", "ls-files", "-co", "--exclude-standard", "-z").split("\0")) {
    if (file === "" || !existsSync(join(root, file))) continue;
    mkdirSync(dirname(join(copy, file)), { recursive: true });
    copyFileSync(join(root, file), join(copy, file));
  }
  run(root, "cp", "-al", realpathSync(join(root, "node_modules")), join(copy, "node_modules"));
  if (existsSync(join(root, ".stage"))) run(root, "cp", "-a", realpathSync(join(root, ".stage")), join(copy, ".stage"));
  mkdirSync(join(copy, ".tools"));
  const tools = existsSync(join(root, ".tools")) ? readdirSync(join(root, ".tools")) : [];
  for (const tool of tools) symlinkSync(join(root, ".tools", tool), join(copy, ".tools", tool));
  return copy;
}

export const removeTree = (copy: string) => rmSync(copy, { recursive: true, force: true });

function run(cwd: string, ...argv: string[]): string {
  const { success, stdout, stderr } = Bun.spawnSync(argv, { cwd });
  if (!success) throw new Error(`${argv.join(" ")}: ${stderr.toString().trim()}`);
  return stdout.toString();
}
