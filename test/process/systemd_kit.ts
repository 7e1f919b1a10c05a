/** This machine's systemd as process 1 of its own namespaces, without network, over a copy of this machine's files. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { program } from "../cli.ts";
import { until } from "../harness.ts";

const REPOSITORY = resolve(import.meta.dir, "../..");
const SYSTEMD = "/lib/systemd/systemd";
const NAMESPACES = ["--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup"];

/** Undefined if systemd can run here. */
export function whyNoSystemd(): string | undefined {
  if (process.getuid?.() !== 0) return "it needs root";
  if (program().length !== 1) return "it needs the compiled executable";
  if (!existsSync(SYSTEMD)) return `${SYSTEMD} does not exist; on Debian: apt-get install systemd`;
  if (controlGroups() === undefined) return "no control groups of version 2 are mounted";
  if (Bun.spawnSync(["unshare", ...NAMESPACES, "--fork", "mount", "-t", "tmpfs", "none", "/mnt"]).exitCode !== 0)
    return "this machine does not allow mounts in a new namespace";
  return undefined;
}

function controlGroups(): string | undefined {
  const lines = readFileSync("/proc/self/mounts", "utf8").split("\n");
  return lines.map((line) => line.split(" ")).find(([, , kind]) => kind === "cgroup2")?.[1];
}

export type Machine = {
  /** The path of a file of the machine, for this process. */
  path: (file: string) => string;
  /** Runs a command on the machine as root; throws if it fails, unless `mayFail`. */
  run: (argv: readonly string[], options?: { mayFail?: boolean }) => string;
  stop: () => Promise<void>;
};

/** `folders` of this machine are there too, under the same paths. */
export async function bootSystemd(folders: readonly string[] = []): Promise<Machine> {
  const scratch = mkdtempSync(join(tmpdir(), "verk-systemd-"));
  const group = join(controlGroups() as string, `verk-test-${process.pid}`);
  mkdirSync(group);
  const shared = [REPOSITORY, dirname(program()[0] as string), dirname(process.execPath), ...folders];
  const boot = [join(import.meta.dir, "systemd_boot.sh"), scratch, ...shared];
  const script = 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"';
  const argv = ["unshare", ...NAMESPACES, "--fork", "--kill-child=KILL", ...boot];
  const child = Bun.spawn(["sh", "-c", script, "-", group, ...argv], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const errors = new Response(child.stderr).text();
  const stop = async () => {
    child.kill("SIGKILL");
    await child.exited;
    await until("the control groups are empty", () => removeGroups(group));
    rmSync(scratch, { recursive: true, force: true });
  };
  const systemd = () => readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim();
  const run: Machine["run"] = (argv, { mayFail = false } = {}) => {
    const done = Bun.spawnSync(["nsenter", "--target", systemd(), "--all", "--wdns=/", ...argv], { stdin: "ignore" });
    if (!done.success && !mayFail) throw new Error(`${argv.join(" ")}: ${done.stdout}${done.stderr}`);
    return `${done.stdout}${mayFail ? done.stderr : ""}`;
  };
  const isUp = () => {
    if (child.exitCode !== null) return true;
    return run(["systemctl", "is-active", "basic.target"]).trim() === "active";
  };
  await until("systemd is up", isUp).catch(async (error) => {
    await stop();
    throw error;
  });
  if (child.exitCode !== null) throw new Error(`systemd did not start: ${await errors}`);
  return { path: (file) => `/proc/${systemd()}/root${file}`, run, stop };
}

/** Innermost first: a control group with others inside cannot be removed. */
function removeGroups(dir: string): boolean {
  for (const entry of readdirSync(dir, { withFileTypes: true }))
    if (entry.isDirectory()) removeGroups(join(dir, entry.name));
  rmdirSync(dir);
  return true;
}
