/**
 * A real sshd with a user of its own. A server of root sees another /etc/passwd, so that the user `node` has a shell and
 * a home in the scratch directory; without root the user is the one that runs the tests.
 */
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { userInfo } from "node:os";
import { join } from "node:path";
import { libraries } from "./postgres.ts";
import { give, INSTALLED, launch, mustFind, runToEnd, scratch } from "./process.ts";

const UNPACKED = join(INSTALLED, "sshd");
const IS_ROOT = process.getuid?.() === 0;

export type SshServer = {
  port: number;
  user: string;
  home: string;
  /** Text of a key file that the server accepts, and the line of its public half. */
  privateKey: string;
  publicKey: string;
  /** The server's own key: type and base64. */
  hostKey: string;
};

type Where = {
  /** Directories in front of the PATH of the user. */
  path?: string;
  address?: string;
  /** Runs the server in another network. */
  prefix?: readonly string[];
};

export async function startSshd({ path, address = "127.0.0.1", prefix = [] }: Where = {}): Promise<SshServer> {
  const dir = scratch("sshd");
  chmodSync(dir, 0o755);
  const { home, user, argv, env } = sshdSetup(dir, address, path);
  runToEnd(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", join(dir, "client")]);
  copyFileSync(join(dir, "client.pub"), join(home, ".ssh/authorized_keys"));
  give(join(home, ".ssh/authorized_keys"));
  const port = await launch({
    dir,
    env,
    argv: (port) => [...prefix, ...argv(String(port))],
    ready: (port) => answers(port, address),
  });
  const read = (name: string) => readFileSync(join(dir, name), "utf8");
  const keys = { privateKey: read("client"), publicKey: read("client.pub").trim() };
  return { port, user, home: IS_ROOT ? home : userInfo().homedir, ...keys, hostKey: read("host.pub").trim() };
}

/** Everything for a server in `dir` except the keys that it lets in: `.ssh/authorized_keys` below `home`. */
export function sshdSetup(dir: string, address: string, path?: string) {
  const program = mustFind("sshd", ["/usr/sbin/sshd", join(UNPACKED, "usr/sbin/sshd")]);
  mustFind("ssh", ["/usr/bin/ssh"]);
  const env: Record<string, string> = program.startsWith(UNPACKED) ? { LD_LIBRARY_PATH: libraries(UNPACKED) } : {};
  const home = join(dir, "home");
  mkdirSync(join(home, ".ssh"), { recursive: true, mode: 0o700 });
  runToEnd(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", join(dir, "host")]);
  for (const path of [home, join(home, ".ssh")]) give(path);
  const user = IS_ROOT ? "node" : Bun.spawnSync(["id", "-un"]).stdout.toString().trim();
  const options = [
    `HostKey=${join(dir, "host")}`,
    `AuthorizedKeysFile=${join(home, ".ssh/authorized_keys")}`,
    ...[`ListenAddress=${address}`, "UsePAM=no", "PasswordAuthentication=no", "PidFile=none", "StrictModes=no"],
    "MaxStartups=100",
    ...(path === undefined ? [] : [`SetEnv=PATH=${path}:/usr/local/bin:/usr/bin:/bin`]),
  ];
  const plain = (port: string) => [program, "-D", "-e", "-f", "/dev/null", "-p", port, ...flags(options)];
  const argv = (port: string) => (IS_ROOT ? inNamespace(dir, home, plain(port)) : plain(port));
  return { home, user, argv, env };
}

const flags = (options: readonly string[]) => options.flatMap((option) => ["-o", option]);

/** sshd of root needs the user `sshd` and /run/sshd. Both exist only in its own mount namespace. */
function inNamespace(dir: string, home: string, argv: readonly string[]): string[] {
  const passwd = join(dir, "passwd");
  const users = [`node:x:65534:65534::${home}:/bin/sh`, "sshd:x:64000:65534::/run/sshd:/usr/sbin/nologin"];
  writeFileSync(passwd, `${readFileSync("/etc/passwd", "utf8")}${users.join("\n")}\n`, { mode: 0o644 });
  const script =
    'mount --bind "$1" /etc/passwd && mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && shift && exec "$@"';
  return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", passwd, ...argv];
}

const answers = (port: number, address: string) =>
  new Promise<boolean>((done) => {
    const socket = connect(port, address);
    socket.once("data", (data) => {
      socket.destroy();
      done(data.toString().startsWith("SSH-2.0"));
    });
    socket.once("error", () => done(false));
  });
