/** Checks whether this host can make jails by making an empty one. If not, says why and what to change. */

import { readFileSync } from "node:fs";
import { errorText } from "../../lib/error_text.ts";
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
    message = `helper: ${errorText(error)}`;
  }
  return { ok: false, ...explain(message, setting) };
}

/** Returns undefined if this kernel has no such setting. */
function setting(name: string): string | undefined {
  try {
    return readFileSync(`/proc/sys/${name.replaceAll(".", "/")}`, "utf8").trim();
  } catch {
    return undefined;
  }
}

/** `message` is "step: error of the kernel". */
export function explain(message: string, read: (name: string) => string | undefined): { reason: string; fix: string } {
  const step = message.split(":", 1)[0] ?? "";
  if (step === "proc") {
    return {
      reason: `A jail cannot have its own /proc: ${message.slice(step.length + 2)}`,
      fix: "Under systemd, use the unit of install.sh: its lines with /run/verk-proc keep a whole /proc for the jails. In a container, use --security-opt systempaths=unconfined.",
    };
  }
  if (step === "mount_setattr") {
    return { reason: "The kernel is older than 5.12", fix: "Use Linux 5.12 or newer." };
  }
  if (step === "user") {
    return {
      reason: `The server is root and cannot change its user (${message})`,
      fix: "Run the server as an ordinary user, or allow it to change users (in a container: --cap-add SETUID,SETGID).",
    };
  }
  if (step === "helper") {
    return {
      reason: `The helper verk-jail did not start (${message})`,
      fix: "Mount the data directory without noexec, so that programs in it can run.",
    };
  }
  return explainNamespaces(message, read);
}

function explainNamespaces(message: string, read: (name: string) => string | undefined) {
  const reason = (why: string) => `${why} (${message})`;
  if (read("kernel.unprivileged_userns_clone") === "0") {
    return {
      reason: reason("User namespaces are disabled for ordinary users"),
      fix: "Run sysctl -w kernel.unprivileged_userns_clone=1, and add the setting to /etc/sysctl.d/verk.conf.",
    };
  }
  if (read("user.max_user_namespaces") === "0") {
    return {
      reason: reason("User namespaces are not allowed"),
      fix: "Run sysctl -w user.max_user_namespaces=10000, and add the setting to /etc/sysctl.d/verk.conf.",
    };
  }
  if (read("kernel.apparmor_restrict_unprivileged_userns") === "1") {
    return {
      reason: reason("AppArmor restricts user namespaces"),
      fix: "Give the helper verk-jail an AppArmor profile with `userns,`, or run sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 and add the setting to /etc/sysctl.d/verk.conf.",
    };
  }
  return {
    reason: reason("The host does not allow namespaces"),
    fix: "In a container, use a seccomp profile that allows clone and mount (--security-opt seccomp=unconfined). Under systemd, do not set RestrictNamespaces.",
  };
}
