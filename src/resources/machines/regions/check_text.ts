/** The commands of a check, their answers in words, and the fix for each failure. Pure. */
import { formatBytes } from "../../../lib/bytes.ts";
import { KIB } from "../../../lib/units.ts";
import type { CheckStep } from "./schema.ts";
import type { RegionRow } from "./table.ts";

/** `$1`: the work directory. Prints the line of `df`. */
export const MAKE_DIR =
  'set -e; mkdir -p -- "$1"; probe="$1/.check.$$"; : > "$probe"; rm -f -- "$probe"; df -Pk -- "$1" | tail -n 1';
export const SLURM_VERSION =
  'command -v sbatch > /dev/null || { echo "sbatch is not on the PATH of this user" >&2; exit 1; }; sbatch --version; sinfo --noheader > /dev/null';
export const DEVICES = "nproc; nvidia-smi --query-gpu=name --format=csv,noheader 2> /dev/null; true";

export function foundSpace(line: string): string {
  const free = Number(line.trim().split(/\s+/).at(-3));
  return Number.isFinite(free) ? `It can be written, ${formatBytes(free * KIB)} are free` : "It can be written";
}

/** The first line is the number of processors, each further one a GPU. */
export function foundDevices(text: string, kind: RegionRow["kind"]): string {
  const [cpus = "", ...gpus] = text.split("\n").map((line) => line.trim());
  const names = [
    ...Map.groupBy(
      gpus.filter((name) => name !== ""),
      (name) => name,
    ),
  ];
  const cards = names.map(([name, same]) => `${same.length} × ${name}`).join(", ");
  const own = `${cpus} processors, ${cards === "" ? "no GPU" : cards}`;
  return kind === "slurm" ? `The login node has ${own}; Slurm chooses the nodes of jobs` : own;
}

type Node = Pick<RegionRow, "address" | "port" | "user" | "workDir">;

/** One sentence that says what to do. */
export function fixFor(step: CheckStep["name"], message: string, { address, port, user, workDir }: Node): string {
  switch (step) {
    case "address":
      return /not allowed|private|network\.allow/i.test(message)
        ? `The operator can allow ${address} with the setting network.allow.`
        : "Check the spelling of the host name, or enter its IP address.";
    case "host_key":
      return /not the pinned/.test(message)
        ? "If the machine was set up again, delete the region and add it again. Otherwise another machine answers: do not go on."
        : `Check that an SSH server listens at port ${port} of ${address}, and that no firewall stops this server.`;
    case "sign_in":
      if (/permission denied/i.test(message))
        return `Add the public key to ~/.ssh/authorized_keys of ${user}, or choose another key or user.`;
      return /host key verification/i.test(message)
        ? "The node has another host key than the pinned one: delete the region and add it again if you trust the node."
        : `Check that ${user} may run commands over SSH on this node.`;
    case "work_dir":
      return /no space/i.test(message)
        ? "The disk is full: free some space, or choose a directory on another disk."
        : `The user ${user || "of this server"} cannot write in ${workDir}: choose another directory, or change its owner.`;
    case "slurm":
      return /sbatch is not/.test(message)
        ? "Give the address of a login node of the cluster, or choose SSH if this machine has no Slurm."
        : "Check that sinfo works for this user on the login node.";
    case "devices":
      return "Check that the login shell of this user runs commands without questions.";
    case "program":
      if (/exec format/i.test(message)) return "The node has another kind of processor than this server.";
      return /from its source/.test(message)
        ? "Serve with the built executable: it is what runs on the node."
        : "Check that the work directory allows programs to run (no noexec), and has some hundred MiB free.";
  }
}
