/**
 * A real Slurm: munged, slurmctld and two nodes on this machine. Node n1 shows a GPU that is none (/dev/null), n2 has no
 * GPU. The partition `gpu` is n1, `cpu` is n2, and `all` is both.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { libraries } from "./postgres.ts";
import { freePort, INSTALLED, launch, mustFind, runToEnd, scratch } from "./process.ts";

const UNPACKED = join(INSTALLED, "slurm");
type Daemon = "slurmctld" | "n1" | "n2";

export type SlurmServer = {
  /** Slurm's programs, with their configuration. */
  bin: string;
  /** Runs one of them. */
  run: (...argv: string[]) => string;
  /** kill -9. It is started again, unless it shall stay down. */
  kill: (daemon: Daemon, options?: { stayDown?: boolean }) => void;
  up: (daemon: Daemon) => void;
  /** True if a killed controller would know this job again. */
  hasSaved: (jobName: string) => boolean;
};

export async function startSlurm(): Promise<SlurmServer> {
  const program = mustFind("slurm", ["/usr/sbin/slurmctld", join(UNPACKED, "usr/sbin/slurmctld")]);
  const root = program.startsWith(UNPACKED) ? UNPACKED : "/";
  mustFind("slurm", [join(root, "usr/sbin/munged")]);
  const lib = join(libraries(root).split(":")[0] ?? "", "slurm-wlm");
  const dir = scratch("slurm");
  chmodSync(dir, 0o755);
  for (const name of ["munge", "state"]) mkdirSync(join(dir, name), { mode: 0o700 });
  const env = root === "/" ? {} : { LD_LIBRARY_PATH: `${libraries(root)}:${lib}` };
  runToEnd([join(root, "usr/sbin/mungekey"), "--create", `--keyfile=${join(dir, "munge/key")}`], { env });
  const ports = { n1: await freePort(), n2: await freePort() };
  writeFileSync(join(dir, "gres.conf"), "NodeName=n1 Name=gpu Type=h200 File=/dev/null\n");
  const cgroups = existsSync("/sys/fs/cgroup/cgroup.controllers") ? "v2" : "v1";
  writeFileSync(join(dir, "cgroup.conf"), `CgroupPlugin=cgroup/${cgroups}\n`);
  writeWrappers(dir, join(root, "usr/bin"), { ...env, SLURM_CONF: join(dir, "slurm.conf") });
  const run = (...argv: string[]) => {
    const [name = "", ...args] = argv;
    const { success, stdout, stderr } = Bun.spawnSync([join(dir, "bin", name), ...args]);
    if (!success) throw new Error(`${argv.join(" ")}: ${stderr}`);
    return stdout.toString();
  };
  const idle = (text: string) => text.split("\n").filter((line) => line.endsWith("|idle")).length === 2;
  await launch({
    dir,
    env,
    argv(port) {
      const conf = configOf(dir, { lib: root === "/" ? undefined : lib, port, ports });
      writeFileSync(join(dir, "slurm.conf"), conf, { mode: 0o644 });
      return [join(import.meta.dir, "slurm.sh"), dir, join(root, "usr/sbin"), join(root, "usr/sbin/slurmstepd")];
    },
    ready: async () => idle(run("sinfo", "--noheader", "--Node", "--partition=all", "--format=%N|%T")),
  });
  const pidOf = (daemon: Daemon) => Number(readFileSync(join(dir, `${daemon}.pid`), "utf8"));
  return {
    bin: join(dir, "bin"),
    run,
    kill(daemon, { stayDown = false } = {}) {
      if (stayDown) writeFileSync(join(dir, `down.${daemon}`), "");
      process.kill(pidOf(daemon), "SIGKILL");
    },
    up: (daemon) => rmSync(join(dir, `down.${daemon}`), { force: true }),
    hasSaved: (jobName) => readFileSync(join(dir, "state/job_state"), "latin1").includes(jobName),
  };
}

/** Slurm's programs find their libraries and their configuration through the environment: a wrapper sets it. */
function writeWrappers(dir: string, from: string, env: Record<string, string>) {
  mkdirSync(join(dir, "bin"));
  const settings = Object.entries(env).map(([name, value]) => `${name}='${value}'`);
  for (const name of readdirSync(from).filter((each) => /^(s|munge)/.test(each)))
    writeFileSync(join(dir, "bin", name), `#!/bin/sh\nexec env ${settings.join(" ")} '${join(from, name)}' "$@"\n`, {
      mode: 0o755,
    });
}

type Cluster = { lib: string | undefined; port: number; ports: { n1: number; n2: number } };

function configOf(dir: string, { lib, port, ports }: Cluster): string {
  const host = hostname().split(".")[0];
  const user = process.getuid?.() ?? 0;
  const node = `NodeHostname=${host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000`;
  return [
    "ClusterName=verk",
    `SlurmctldHost=${host}(127.0.0.1)`,
    `SlurmctldPort=${port}`,
    `SlurmUser=${user}`,
    `SlurmdUser=${user}`,
    `AuthInfo=socket=${dir}/munge.sock`,
    `StateSaveLocation=${dir}/state`,
    `SlurmdSpoolDir=${dir}/spool.%n`,
    `SlurmctldPidFile=${dir}/ctld.run`,
    `SlurmdPidFile=${dir}/%n.run`,
    `SlurmctldLogFile=${dir}/slurmctld.log`,
    `SlurmdLogFile=${dir}/slurmd.%n.log`,
    ...(lib === undefined ? [] : [`PluginDir=${lib}`]),
    "ProctrackType=proctrack/linuxproc",
    "TaskPlugin=task/none",
    "SelectType=select/cons_tres",
    "SelectTypeParameters=CR_Core",
    "ReturnToService=2",
    "MpiDefault=none",
    "GresTypes=gpu",
    "SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0",
    `NodeName=n1 Port=${ports.n1} Gres=gpu:h200:1 ${node}`,
    `NodeName=n2 Port=${ports.n2} ${node}`,
    "PartitionName=all Nodes=n1,n2 Default=YES OverSubscribe=FORCE:4",
    "PartitionName=gpu Nodes=n1 OverSubscribe=FORCE:4",
    "PartitionName=cpu Nodes=n2 OverSubscribe=FORCE:4",
    "",
  ].join("\n");
}
