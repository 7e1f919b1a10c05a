import { afterAll, describe, expect, test } from "bun:test";
import { chmodSync, copyFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { prepareJail, spawnPrepared, startJailed } from "../../src/sandbox/jail/jail.ts";
import { PROGRAM, programMounts } from "../../src/sandbox/jail/program.ts";
import { explain, jailSupport } from "../../src/sandbox/jail/support.ts";
import { until } from "../harness.ts";
import { ATTACK, HELPER, openYard, processesWith } from "./jail_kit.ts";
import { asNobody, isRoot, NOBODY } from "./nobody.ts";

const yard = openYard();
afterAll(() => rmSync(yard.dir, { recursive: true, force: true }));
/** A copy in a directory where the unprivileged user may execute it. */
const helper = join(yard.dir, "verk-jail");
copyFileSync(HELPER, helper);
chmodSync(helper, 0o755);

let marks = 0;
/** A long sleep that can be told from every other process of this machine. */
const marked = () => String(700_000 + (process.pid % 10_000) * 10 + marks++);

function startParent(argv: readonly string[]) {
  const child = Bun.spawn(asNobody([process.execPath, join(import.meta.dir, "jail_parent.ts")]), {
    stdin: new TextEncoder().encode(JSON.stringify({ jail: { path: helper }, spec: yard.spec(argv) })),
    stdout: "pipe",
    stderr: "inherit",
    env: { PATH: process.env["PATH"] ?? "", HOME: yard.dir },
    cwd: "/",
  });
  return child;
}

describe("nothing is left", () => {
  test("of a command that went into the background and ignores every signal", async () => {
    const mark = marked();
    const ran = await yard.shell(`${ATTACK} daemonise ${mark}; ${ATTACK} daemonise ${mark}; sleep 0.2; echo bye`);
    expect(ran).toMatchObject({ reason: "exited", stdout: "bye\n" });
    expect(processesWith(mark)).toEqual([]);
  });

  test("the test is real: without the jail the same process stays", async () => {
    const mark = marked();
    await Bun.spawn(asNobody([yard.attack, "daemonise", mark]), { env: {} }).exited;
    await until("the daemon", () => processesWith(mark).length > 0);
    await until("it is gone", () => {
      const left = processesWith(mark);
      for (const pid of left) process.kill(pid, "SIGKILL"); // a daemon that forks is another process the next time
      return left.length === 0;
    });
  });

  test("when it is stopped", async () => {
    const mark = marked();
    const running = startJailed({ path: HELPER }, yard.spec(["/bin/sh", "-c", `sleep ${mark} & sleep ${mark}`]));
    await until("it runs", () => processesWith(mark).length === 2);
    expect(await running.stop()).toMatchObject({ reason: "stopped", exitCode: null });
    expect(processesWith(mark)).toEqual([]);
    expect(await running.stop()).toMatchObject({ reason: "stopped" }); // again is harmless
  });

  test("when it is stopped at once", async () => {
    const mark = marked();
    const all = Array.from({ length: 10 }, () => startJailed({ path: HELPER }, yard.spec(["/bin/sleep", mark])).stop());
    for (const end of await Promise.all(all)) expect(end.reason).toBe("stopped");
    expect(processesWith(mark)).toEqual([]);
  });

  test("when the helper is killed", async () => {
    const mark = marked();
    const running = startJailed({ path: HELPER }, yard.spec(["/bin/sleep", mark]));
    await until("it runs", () => processesWith(mark).length === 1);
    process.kill(running.pid, "SIGKILL");
    await running.ended;
    await until("it is gone", () => processesWith(mark).length === 0);
  });

  test("when the server is killed", async () => {
    const mark = marked();
    const parent = startParent(["/bin/sh", "-c", `${ATTACK} daemonise ${mark}; sleep ${mark}`]);
    await until("it runs", () => processesWith(mark).length === 2);
    parent.kill("SIGKILL");
    await until("it is gone", () => processesWith(mark).length === 0);
  });

  test("of descriptors", async () => {
    const count = () => readdirSync("/proc/self/fd").length;
    await yard.shell("true", { io: { stdin: new Uint8Array(10) } });
    const before = count();
    for (let i = 0; i < 20; i++) await yard.shell("true", { io: { stdin: new Uint8Array(10) } });
    expect(() => startJailed({ path: "/no/such/helper" }, yard.spec(["/bin/true"]))).toThrow();
    expect(count()).toBeLessThan(before + 10); // twenty runs; other tests of this process open and close some too
  });
});

describe("users that run the jail", () => {
  test("an ordinary user can run it with nothing but the helper", async () => {
    const parent = startParent(["/bin/sh", "-c", "id -u; echo x > mine; cat /etc/shadow || unshare -U true || mount"]);
    const [, last = ""] = (await new Response(parent.stdout).text()).trim().split("\n");
    const said = JSON.parse(last);
    expect(said).toMatchObject({ support: { ok: true }, end: { reason: "exited", exitCode: 0 } });
    expect(said.uid).toBe(isRoot ? NOBODY : process.getuid?.());
    expect(said.output).toStartWith("1000\n");
  });

  test.skipIf(!isRoot)(
    "a server that is root gives no root rights to commands, and reaches files that only root may read",
    async () => {
      const at = yard.workspace();
      chmodSync(yard.dir, 0o700);
      try {
        expect(await yard.shell("touch mine; id -u", {}, at)).toMatchObject({ stdout: "1000\n", exitCode: 0 });
        expect(
          Bun.spawnSync(["stat", "-c", "%u", join(at, "mine")])
            .stdout.toString()
            .trim(),
        ).toBe(String(NOBODY));
      } finally {
        chmodSync(yard.dir, 0o755);
      }
    },
  );
});

describe("a program alone", () => {
  test("runs in a root that holds nothing else", async () => {
    const script = 'console.log(JSON.stringify([require("fs").readdirSync("/").sort(), process.pid]))';
    const spec = yard.spec([PROGRAM, "-e", script], {
      filter: "none",
      limits: { memoryBytes: 1 << 30, processes: 64 },
    });
    const { disk: _, ...limits } = spec.limits;
    const mounts = [...programMounts(process.execPath), { kind: "devices" as const }, { kind: "proc" as const }];
    const prepared = prepareJail({ path: HELPER }, { ...spec, cwd: "/", mounts, limits });
    const child = spawnPrepared(prepared, ["ignore", "pipe", "inherit"]);
    const said = JSON.parse(await new Response(child.stdout).text());
    await child.exited;
    expect(prepared.end()).toMatchObject({ reason: "exited", exitCode: 0 });
    expect(said[0].filter((name: string) => !["lib", "lib64", "usr"].includes(name))).toEqual(["dev", "proc", "verk"]);
  });
});

describe("missing features of a host", () => {
  test("this host has all features", async () => {
    expect(await jailSupport({ path: HELPER })).toEqual({ ok: true });
  });

  test("a helper that does not start is reported", async () => {
    expect(await jailSupport({ path: "/no/such/helper" })).toMatchObject({ ok: false });
  });

  // biome-ignore format: a table should look like one
  const hosts = [
    ["namespaces: Operation not permitted", "kernel.unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"],
    ["namespaces: No space left on device", "user.max_user_namespaces", "0", "user.max_user_namespaces="],
    ["id maps: Operation not permitted", "kernel.apparmor_restrict_unprivileged_userns", "1", "AppArmor profile"],
    ["namespaces: Operation not permitted", "none", "", "seccomp"],
    ["proc: the host's /proc is partly hidden", "none", "", "systempaths=unconfined"],
    ["user: Operation not permitted", "none", "", "ordinary user"],
    ["mount_setattr: this kernel is older than 5.12", "none", "", "5.12"],
  ] as const;
  test.each(hosts)("%s (%s = %s) names the fix: %s", (message, name, value, fix) => {
    expect(explain(message, (asked) => (asked === name ? value : undefined)).fix).toContain(fix);
  });
});
