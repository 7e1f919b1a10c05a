/** Whether this host can make jails: by making one, in which nothing runs. Else why not, and what to change. */
import { readFileSync } from "node:fs";
import { type Jail, prepareJail, spawnPrepared } from "./jail.ts";
import type { JailSpec, JailSupport } from "./types.ts";

const PROBE: JailSpec = {
  argv: [],
  env: {},
  cwd: "/",
  mounts: [{ kind: "devices" }, { kind: "proc" }, { kind: "tmpfs", to: "/tmp", bytes: 1 << 20 }],
  limits: { processes: 8, memoryBytes: 64 << 20, openFiles: 64, fileBytes: 1 << 20, cpuSeconds: 5, wallMs: 5000 },
  network: "none",
  filter: "session",
};

export async function jailSupport(jail: Jail): Promise<JailSupport> {
  let message: string;
  try {
    const prepared = prepareJail(jail, PROBE, true);
    const child = spawnPrepared(prepared, ["ignore", "ignore", "ignore"]);
    await child.exited;
    const end = prepared.end();
    if (end.reason === "exited" && end.exitCode === 0) return { ok: true };
    message = end.message;
  } catch (error) {
    message = `helper: ${error instanceof Error ? error.message : String(error)}`;
  }
  return { ok: false, ...explain(message, setting) };
}

/** Its first line; undefined where this kernel has no such setting. */
function setting(name: string): string | undefined {
  try {
    return readFileSync(`/proc/sys/${name.replaceAll(".", "/")}`, "utf8").trim();
  } catch {
    return undefined;
  }
}

/** `message` is "step: what the kernel said". */
export function explain(message: string, read: (name: string) => string | undefined): { reason: string; fix: string } {
  const step = message.split(":", 1)[0] ?? "";
  if (step === "proc") {
    return {
      reason: `No /proc of its own: ${message.slice(step.length + 2)}`,
      fix: "Under systemd take ProtectKernelTunables, ProtectKernelLogs, ProtectHostname, ProtectProc and ProcSubset out of the unit; in a container, run it with --security-opt systempaths=unconfined.",
    };
  }
  if (step === "mount_setattr") {
    return { reason: "The kernel is older than 5.12", fix: "Run it on Linux 5.12 or newer." };
  }
  if (step === "user") {
    return {
      reason: `The server is root, and cannot become another user (${message})`,
      fix: "Run it as an ordinary user, or leave it the right to change users (in a container: --cap-add SETUID,SETGID).",
    };
  }
  if (step === "helper") {
    return {
      reason: `The helper did not start (${message})`,
      fix: "The data directory must allow programs to run: mount it without noexec.",
    };
  }
  return explainNamespaces(message, read);
}

function explainNamespaces(message: string, read: (name: string) => string | undefined) {
  const reason = (why: string) => `${why} (${message})`;
  if (read("kernel.unprivileged_userns_clone") === "0") {
    return {
      reason: reason("User namespaces are off for ordinary users"),
      fix: "sysctl -w kernel.unprivileged_userns_clone=1, and the same line in /etc/sysctl.d/verk.conf.",
    };
  }
  if (read("user.max_user_namespaces") === "0") {
    return {
      reason: reason("No user namespaces are allowed"),
      fix: "sysctl -w user.max_user_namespaces=10000, and the same line in /etc/sysctl.d/verk.conf.",
    };
  }
  if (read("kernel.apparmor_restrict_unprivileged_userns") === "1") {
    return {
      reason: reason("AppArmor restricts user namespaces"),
      fix: "Give the helper verk-jail an AppArmor profile with `userns,`, or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (and in /etc/sysctl.d/verk.conf).",
    };
  }
  return {
    reason: reason("The host refuses to make namespaces"),
    fix: "In a container, run it with a seccomp profile that allows clone and mount (--security-opt seccomp=unconfined); under systemd do not set RestrictNamespaces.",
  };
}
