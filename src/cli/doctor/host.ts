import { Database } from "bun:sqlite";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { formatListen, type Listen, parseListen } from "../../lib/net/listen.ts";
import { DAY_MS } from "../../lib/units.ts";
import { BUILT_AT } from "../../lib/version.ts";
import { exposedSecrets, sayExposed } from "../../platform/config/config.ts";
import { isHeld } from "../../platform/db/data_lock.ts";
import { descriptorsOf, fewDescriptors, mostConnections } from "../../platform/machine/descriptors.ts";
import { type Check, fail, ok, type Scene, type Verdict, warn } from "./check.ts";

const GLIBC_FLOOR = [2, 34] as const;
const YEAR_MS = 365.25 * DAY_MS;

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
  if (!version)
    return warn(
      "the C library is not glibc, or its version is unknown",
      "use Debian 12, Ubuntu 22.04, RHEL 9 or newer",
    );
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const old = major < GLIBC_FLOOR[0] || (major === GLIBC_FLOOR[0] && minor < GLIBC_FLOOR[1]);
  if (!old) return ok(`glibc ${version}`);
  return fail(
    `glibc ${version}; the native libraries need ${GLIBC_FLOOR.join(".")} or newer`,
    "use Debian 12, Ubuntu 22.04, RHEL 9 or newer",
  );
}

/** A wrong clock breaks signatures, expiry times and TLS, with errors that do not mention the clock. */
function clock({ config }: Scene) {
  const now = Date.now();
  const floor = BUILT_AT === null ? Date.UTC(2025, 0, 1) : Date.parse(BUILT_AT);
  const shown = new Date(now).toISOString();
  const fix = "set the clock: timedatectl set-ntp true";
  if (now < floor - DAY_MS) return fail(`${shown} is before this program was built`, fix);
  if (now > floor + 20 * YEAR_MS) return warn(`${shown} is far in the future`, fix);
  const expected = expectedTime(join(config.data_dir, "verk.db"));
  if (expected !== undefined && now > expected + DAY_MS)
    return warn(
      `${shown} is far ahead of ${new Date(expected).toISOString()}, which the uptime of the server explains: old data is kept for now`,
      "set the clock if it is wrong; if it is right, keep the server running for 24 hours",
    );
  return ok(shown);
}

/** The trusted time that a running server last wrote down while its clock was ahead (platform/trusted_clock.ts). */
function expectedTime(path: string): number | undefined {
  if (!existsSync(path)) return undefined;
  const db = new Database(path, { readonly: true });
  try {
    const row = db.query<{ value: string }, []>("SELECT value FROM settings WHERE key = 'clock'").get();
    const { trusted, waited } = JSON.parse(row?.value ?? "{}") as { trusted?: number; waited?: number };
    return waited ? trusted : undefined;
  } catch {
    return undefined; // an older or a damaged database; the check of the database reports that
  } finally {
    db.close();
  }
}

/** Reads the limit of the running server, if this user may see it, else the one of a server that this user would start. */
function openFiles({ config }: Scene) {
  const { held, holder } = isHeld(config.data_dir);
  const ofServer = held && holder ? descriptorsOf(holder.pid) : undefined;
  const limits = ofServer ?? descriptorsOf();
  if (!limits) return warn("the limit is unknown: /proc cannot be read", "mount /proc");
  const few = fewDescriptors(limits);
  if (few) return warn(few.detail, few.fix);
  const used = ofServer ? `, the server has ${limits.used} open` : "";
  if (limits.soft === Number.POSITIVE_INFINITY) return ok(`no limit${used}`);
  return ok(
    `limit ${limits.soft} (hard ${limits.hard}), of which connections get ${mostConnections(limits.soft)}${used}`,
  );
}

const listenFixes = (setting: string): Readonly<Record<string, string>> => ({
  EADDRINUSE: `another program listens there: stop it, or choose another address with ${setting}`,
  EACCES:
    "ports below 1024 need privileges: choose a higher port, or set AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit",
  EADDRNOTAVAIL: "this machine does not have that address: choose one of its addresses, or 0.0.0.0",
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
      listenFixes(setting)[code] ?? `choose another address with ${setting}`,
    );
  }
}
