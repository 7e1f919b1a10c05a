import { readFileSync } from "node:fs";
import { formatListen, type Listen, parseListen } from "../../lib/net/listen.ts";
import { BUILT_AT } from "../../lib/version.ts";
import { exposedSecrets, sayExposed } from "../../platform/config/config.ts";
import { isHeld } from "../../platform/db/data_lock.ts";
import { type Check, fail, ok, type Scene, type Verdict, warn } from "./check.ts";

const GLIBC_FLOOR = [2, 34] as const;
const WANTED_FILES = 4096;
const YEAR_MS = 365.25 * 86_400_000;

export const hostChecks: readonly Check[] = [
  { name: "C library", run: glibc },
  { name: "clock", run: clock },
  { name: "open files", run: openFiles },
  { name: "address", run: address },
  { name: "configuration", run: configuration },
];

function glibc() {
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  const version = report.header?.glibcVersionRuntime;
  if (!version) return warn("not glibc, or its version is not known", "use Debian 12, Ubuntu 22.04, RHEL 9 or newer");
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const old = major < GLIBC_FLOOR[0] || (major === GLIBC_FLOOR[0] && minor < GLIBC_FLOOR[1]);
  if (!old) return ok(`glibc ${version}`);
  return fail(
    `glibc ${version}, the native libraries need ${GLIBC_FLOOR.join(".")}`,
    "use Debian 12, Ubuntu 22.04, RHEL 9 or newer",
  );
}

/** A wrong clock breaks signatures, expiry and TLS long before anybody looks at it. */
function clock() {
  const now = Date.now();
  const floor = BUILT_AT === null ? Date.UTC(2025, 0, 1) : Date.parse(BUILT_AT);
  const shown = new Date(now).toISOString();
  const fix = "set the clock: timedatectl set-ntp true";
  if (now < floor - 86_400_000) return fail(`${shown} is before this program was built`, fix);
  if (now > floor + 20 * YEAR_MS) return warn(`${shown} is far in the future`, fix);
  return ok(shown);
}

function openFiles() {
  const limits = readFileSync("/proc/self/limits", "utf8");
  const [soft = "", hard = ""] = /^Max open files\s+(\S+)\s+(\S+)/m.exec(limits)?.slice(1) ?? [];
  if (soft === "unlimited" || Number(soft) >= WANTED_FILES) return ok(`limit ${soft}`);
  return warn(
    `limit ${soft} (hard ${hard}): many connections at once would fail`,
    "ulimit -n 65536, or LimitNOFILE=65536 in the systemd unit",
  );
}

const listenFixes = (setting: string): Readonly<Record<string, string>> => ({
  EADDRINUSE: `another program listens there: stop it, or choose another with ${setting}`,
  EACCES:
    "ports below 1024 need privileges: choose a higher one, or AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit",
  EADDRNOTAVAIL: "this machine does not have that address: choose one it has, or 0.0.0.0",
});

function address({ config }: Scene) {
  const { held, holder } = isHeld(config.data_dir);
  if (held) return ok(`the running server listens on ${holder?.listen ?? "its address"}`);
  const at = parseListen(config.http.listen) ?? { hostname: "127.0.0.1", port: 0 };
  const { port } = config.detect;
  const first = free(at, "--listen");
  return port < 0 || first.status !== "ok" ? first : free({ ...at, port }, "detect.port", `${formatListen(at)} and `);
}

function configuration({ file }: Scene) {
  const exposed = exposedSecrets(file);
  if (!exposed) return ok(file ?? "no file: defaults and environment");
  const { detail, fix } = sayExposed(exposed);
  return warn(detail, fix);
}

function free(at: Listen, setting: string, before = ""): Verdict {
  try {
    Bun.listen({ ...at, socket: { data() {} } }).stop(true);
    return ok(`${before}${formatListen(at)} ${before ? "are" : "is"} free`);
  } catch (error) {
    const code = String((error as { code?: unknown }).code);
    return fail(
      `cannot listen on ${formatListen(at)} (${code})`,
      listenFixes(setting)[code] ?? `choose another with ${setting}`,
    );
  }
}
