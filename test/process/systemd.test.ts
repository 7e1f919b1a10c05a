// tier: all (checks of a release)
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { program } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { bootSystemd, type Machine, whyNoSystemd } from "./systemd_kit.ts";

const ROOT = resolve(import.meta.dir, "../..");
const MOST_EXPOSURE = 2.1;
const MOST_WITHOUT_SESSIONS = 1.2;
const exposureIn = (text: string) => Number(/Overall exposure level for verk.service: ([\d.]+)/.exec(text)?.[1]);
/** The drop-in of docs/install.md for machines without sessions. */
const dropIn = () =>
  /```ini\n(\[Service\]\nRestrictNamespaces[^`]+)```/.exec(readFileSync(join(ROOT, "docs/install.md"), "utf8"))?.[1] ??
  "";

describe.skipIf(Bun.which("systemd-analyze") === null)("the unit by systemd-analyze", () => {
  const analyze = (...args: string[]) => {
    const { stdout, stderr } = Bun.spawnSync(["systemd-analyze", ...args]);
    return `${stdout}${stderr}`;
  };
  const exposure = (unit: string) => exposureIn(analyze("security", "--offline=true", "--no-pager", unit));

  test("its exposure is 2.1 at most, and 1.2 at most without sessions", () => {
    const unit = join(ROOT, "config/verk.service");
    expect(exposure(unit)).toBeLessThanOrEqual(MOST_EXPOSURE);
    const dir = tempDir();
    const closed = join(dir, "verk.service");
    expect(dropIn()).toContain("SystemCallFilter=");
    writeFileSync(closed, `${readFileSync(unit, "utf8")}\n${dropIn()}`);
    expect(exposure(closed)).toBeLessThanOrEqual(MOST_WITHOUT_SESSIONS);
    rmSync(dir, { recursive: true, force: true });
  });

  test("systemd knows every setting of it", () => {
    const lines = analyze("verify", join(ROOT, "config/verk.service")).split("\n");
    expect(lines.filter((line) => /verk\.service:\d/.test(line))).toEqual([]);
  });
});

const reason = whyNoSystemd();
if (reason !== undefined) console.warn(`skipped: the service under a real systemd: ${reason}`);

describe.skipIf(reason !== undefined)("the service under a real systemd", () => {
  let machine: Machine;
  beforeAll(async () => {
    machine = await bootSystemd();
  }, 60_000);
  afterAll(() => machine?.stop());

  const shell = (script: string, ...args: string[]) => machine.run(["bash", "-c", script, "-", ...args]);
  const show = (name: string) => machine.run(["systemctl", "show", "verk", `--property=${name}`, "--value"]).trim();
  const isReady = () => machine.run(["curl", "-fsS", "http://127.0.0.1:7070/readyz"]) !== "";
  const verk = (...args: string[]) => machine.run(["/usr/local/bin/verk", ...args]);
  const mainPid = () => Number(show("MainPID"));

  async function untilRestarted(before: number) {
    await until("a new server is active", () => mainPid() > before && show("ActiveState") === "active", 60_000);
    expect(isReady()).toBe(true);
  }
  function override(lines: string) {
    shell(
      'mkdir -p /etc/systemd/system/verk.service.d; echo "$1" >/etc/systemd/system/verk.service.d/test.conf',
      lines,
    );
    machine.run(["systemctl", "daemon-reload"]);
  }

  test("install.sh returns when the server is ready", () => {
    machine.run([join(ROOT, "install.sh"), "--from", program()[0] as string]);
    expect(show("ActiveState")).toBe("active");
    expect(isReady()).toBe(true);
    expect(show("Type")).toBe("notify");
    expect(exposureIn(machine.run(["systemd-analyze", "security", "--no-pager", "verk.service"]))).toBeLessThanOrEqual(
      MOST_EXPOSURE,
    );
  }, 60_000);

  test("sandboxes work inside the unit: a session runs a command in namespaces of its own", () => {
    const id = verk("sessions", "create", "--name", "lab").trim();
    expect(verk("sessions", "exec", id, "--", "sh", "-c", "id -u; ls /proc | grep -c '^[0-9]'")).toMatch(
      /^1000\n\d\n$/,
    );
  }, 60_000);

  test("files go into a session and out of it, also through links of the session", () => {
    const id = verk("sessions", "create", "--name", "files").trim();
    shell("echo hello >/tmp/sent");
    verk("sessions", "cp", "/tmp/sent", `${id}:in/sent`);
    verk("sessions", "exec", id, "--", "sh", "-c", "ln -s in/sent link; ln -s /etc/passwd out; ln -s ../../.. up");
    verk("sessions", "cp", `${id}:link`, "/tmp/received");
    expect(shell("cat /tmp/received")).toBe("hello\n");
    for (const path of ["out", "up/etc/passwd"])
      expect(
        machine.run(["/usr/local/bin/verk", "sessions", "cp", `${id}:${path}`, "/tmp/stolen"], { mayFail: true }),
      ).toMatch(/leads out|No such|not exist|not found/i);
    expect(shell("ls /tmp/stolen 2>&1 || true")).toContain("No such file");
    const mode = verk("sessions", "exec", id, "--", "sh", "-c", "touch x; chmod u+s x 2>&1 || echo refused");
    expect(mode).toContain("refused");
  }, 60_000);

  test("the server sees cards, and no other device, process or tunable", () => {
    const inside = (script: string) => {
      const pid = String(mainPid());
      const as = `setpriv --reuid=verk --regid=verk --clear-groups sh -c "$2" 2>&1`;
      return shell(`nsenter --target "$1" --mount -- ${as} || true`, pid, script).trim();
    };
    expect(inside("ls /dev/nvidia0")).toBe("/dev/nvidia0");
    expect(inside("ls /dev/foreign")).toContain("No such file");
    expect(inside("ls /run/verk-proc")).toContain("Permission denied");
    expect(inside("ls /proc/1")).toContain("No such file");
    expect(inside("grep ' /proc/sys ' /proc/self/mounts")).toMatch(/ \/proc\/sys proc ro,/);
    expect(inside("touch /etc/x")).toContain("Read-only");
    const status = shell('cat "/proc/$1/status"', String(mainPid()));
    expect(status).toMatch(/^CapBnd:\t0+$/m);
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);
    expect(status).toMatch(/^Seccomp:\t2$/m);
  });

  test("a killed server is started again", async () => {
    const before = mainPid();
    machine.run(["kill", "-KILL", String(before)]);
    await untilRestarted(before);
    expect(show("NRestarts")).toBe("1");
  }, 60_000);

  test("a server that hangs is ended by the watchdog and started again; one that works is left alone", async () => {
    override("[Service]\nWatchdogSec=2\nRestartSec=0");
    machine.run(["systemctl", "restart", "verk"]);
    const before = mainPid();
    await Bun.sleep(4_000); // two times of the watchdog
    expect(mainPid()).toBe(before);
    machine.run(["kill", "-STOP", String(before)]);
    await untilRestarted(before);
    expect(machine.run(["journalctl", "-u", "verk", "--no-pager"])).toContain("Watchdog timeout");
  }, 60_000);

  test("the master key can be a credential that the data directory does not have", () => {
    machine.run(["systemctl", "stop", "verk"]);
    machine.run(["mv", "/var/lib/verk/master.key", "/etc/verk/master.key"]);
    machine.run(["chown", "root:root", "/etc/verk/master.key"]);
    override("[Service]\nLoadCredential=master.key:/etc/verk/master.key");
    machine.run(["systemctl", "start", "verk"]);
    expect(isReady()).toBe(true);
    expect(machine.run(["ls", "/var/lib/verk"])).not.toContain("master.key");
  }, 60_000);

  test("a start that fails because the disk is full is tried until there is space", async () => {
    machine.run(["systemctl", "stop", "verk"]);
    override("[Service]\nRestartSec=0\nLoadCredential=master.key:/etc/verk/master.key");
    machine.run(["mount", "-t", "tmpfs", "-o", "size=64k", "full", "/var/lib/verk"]);
    shell("chown verk:verk /var/lib/verk; head -c 1M /dev/zero >/var/lib/verk/filler || true");
    machine.run(["systemctl", "start", "--no-block", "verk"]);
    await until("six failed starts", () => Number(show("NRestarts")) >= 6, 60_000);
    machine.run(["umount", "--lazy", "/var/lib/verk"]);
    await until("the server is active", () => show("ActiveState") === "active", 60_000);
    expect(isReady()).toBe(true);
  }, 120_000);

  test("without sessions: the server works inside the drop-in, and a session is refused with the reason", () => {
    override(`${dropIn()}LoadCredential=master.key:/etc/verk/master.key`);
    machine.run(["systemctl", "restart", "verk"]);
    expect(isReady()).toBe(true);
    expect(exposureIn(machine.run(["systemd-analyze", "security", "--no-pager", "verk.service"]))).toBeLessThanOrEqual(
      MOST_WITHOUT_SESSIONS,
    );
    expect(machine.run(["/usr/local/bin/verk", "sessions", "create"], { mayFail: true })).toContain("namespaces");
  }, 60_000);
});
