/**
 * The root file system of a session: the programs of the host, read-only, and /workspace. Nothing else of the host is
 * visible: no /home, /run, /var or sockets, and of /etc only what programs need.
 */
import { lstatSync, readFileSync, readlinkSync } from "node:fs";
import type { ForeignDir } from "../files/foreign_dir.ts";
import type { Mount } from "./types.ts";

export type SessionRoot = {
  /** Directory on the host. */
  workspace: string | ForeignDir;
  /** Mounted after the workspace, so that a volume may be inside of it. */
  volumes: readonly { from: string | ForeignDir; to: string; writable: boolean }[];
  network: "none" | "host";
  /** Size of /tmp, which is memory and counts as memory. */
  tmpBytes: number;
};

const SHM_BYTES = 64 << 20;
/** These are symlinks into /usr on most hosts, and directories on some. */
const PROGRAM_DIRS = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/** Certificates, the cache of the linker and similar files. They are public on every host. */
const PUBLIC_ETC = [
  "/etc/ld.so.cache",
  "/etc/ld.so.conf",
  "/etc/ld.so.conf.d",
  "/etc/alternatives",
  "/etc/ssl/certs",
  "/etc/ssl/openssl.cnf",
  "/etc/pki/tls/certs",
  "/etc/pki/tls/openssl.cnf",
  "/etc/pki/ca-trust/extracted",
  "/etc/ca-certificates",
  "/etc/crypto-policies",
  "/etc/localtime",
  "/etc/timezone",
  "/etc/mime.types",
  "/etc/magic",
  "/etc/protocols",
  "/etc/services",
];

const TEXTS: Record<string, string> = {
  "/etc/passwd": "user:x:1000:1000::/workspace:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n",
  "/etc/group": "user:x:1000:\nnogroup:x:65534:\n",
  "/etc/hosts": "127.0.0.1 localhost verk\n::1 localhost\n",
  "/etc/hostname": "verk\n",
  "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
};

/** Environment variables of every command of a session or custom job. */
export const SESSION_ENV = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  HOME: "/workspace",
  USER: "user",
  LOGNAME: "user",
  SHELL: "/bin/sh",
  LANG: "C.UTF-8",
  TMPDIR: "/tmp",
} as const;

export function sessionMounts(root: SessionRoot): Mount[] {
  return [
    { kind: "read_only", from: "/usr", to: "/usr" },
    ...PROGRAM_DIRS.flatMap(asOnHost),
    ...PUBLIC_ETC.flatMap(asOnHost),
    ...Object.entries(TEXTS).map(([at, text]) => ({ kind: "file", at, text }) as const),
    ...(root.network === "host" ? resolver() : []),
    { kind: "devices" },
    { kind: "proc" },
    { kind: "tmpfs", to: "/tmp", bytes: root.tmpBytes },
    { kind: "tmpfs", to: "/dev/shm", bytes: Math.min(SHM_BYTES, root.tmpBytes) },
    { kind: "writable", from: root.workspace, to: "/workspace" },
    ...root.volumes.map(({ from, to, writable }) => ({ kind: writable ? "writable" : "read_only", from, to }) as const),
  ];
}

function asOnHost(path: string): Mount[] {
  const entry = lstatSync(path, { throwIfNoEntry: false });
  if (entry === undefined) return [];
  if (entry.isSymbolicLink()) return [{ kind: "symlink", target: readlinkSync(path), at: path }];
  return [{ kind: "read_only", from: path, to: path }];
}

/** Copies the text, because /etc/resolv.conf is a link into /run on many hosts. */
function resolver(): Mount[] {
  try {
    return [{ kind: "file", at: "/etc/resolv.conf", text: readFileSync("/etc/resolv.conf", "utf8") }];
  } catch {
    return [];
  }
}
