/** A workspace in a directory of its own, opened beneath its root, with a secret outside of it. */
import { closeSync, mkdirSync, openSync, readSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../../src/lib/errors.ts";
import { type Beneath, openBeneath } from "../../src/sandbox/files/beneath.ts";
import { measureTree } from "../../src/sandbox/files/beneath_tree.ts";
import { tempDir } from "../harness.ts";

export let dir: string;
export let workspace: string;
export let beneath: Beneath;

export function setUp() {
  dir = tempDir();
  workspace = join(dir, "root/workspace");
  mkdirSync(workspace, { recursive: true });
  writeFileSync(join(dir, "secret"), "secret");
  beneath = openBeneath(join(dir, "root"));
}
export function tearDown() {
  beneath.close();
  Bun.spawnSync(["chmod", "-R", "u+rwx", dir]);
  rmSync(dir, { recursive: true, force: true });
}

export const put = (path: string, text = "x") => {
  mkdirSync(join(workspace, path, ".."), { recursive: true });
  writeFileSync(join(workspace, path), text);
};
export const link = (target: string, name: string) => symlinkSync(target, join(workspace, name));
export const fifo = (name: string) => Bun.spawnSync(["mkfifo", join(workspace, name)]);
export const codeOf = async (work: () => unknown): Promise<string> => {
  try {
    await work();
    return "ok";
  } catch (error) {
    if (error instanceof AppError) return `${error.status} ${error.code}`;
    throw error;
  }
};
export const textOf = (path: string) => {
  const { fd, stat } = beneath.openFile(path);
  const buffer = Buffer.alloc(stat.bytes);
  try {
    return buffer.toString("utf8", 0, readSync(fd, buffer));
  } finally {
    closeSync(fd);
  }
};

export const measured = async (most = 1_000_000) => {
  const fd = openSync(workspace, "r");
  try {
    return await measureTree(fd, most);
  } finally {
    closeSync(fd);
  }
};

export const OUTSIDE = "400 path_outside_workspace";
export const MISSING = "404 resource_not_found";
