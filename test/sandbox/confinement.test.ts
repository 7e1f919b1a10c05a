import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join, resolve } from "node:path";
import { WORKER_LAYERS, type WorkerLayer } from "../../src/sandbox/confinement/layers.ts";
import { type ConfinedKind, POLICIES } from "../../src/sandbox/confinement/policy.ts";
import { tempDir } from "../harness.ts";
import { confinedIn, HELPER, HOLDING } from "./confined.ts";

const ATTACKS = resolve(import.meta.dir, "confined_attacks.ts");
const KINDS = Object.keys(POLICIES) as ConfinedKind[];
const OFFLINE = KINDS.filter((kind) => !POLICIES[kind].network);

const dir = tempDir();
const at = (...names: string[]) => join(dir, ...names);
const servers: Server[] = [];
/** A process of the same user and with as few capabilities as a worker. */
const neighbour = Bun.spawn([HELPER, "--layers", "", "--", "/bin/sleep", "600"]);
let port = 0;

beforeAll(async () => {
  for (const name of ["native", "run/neighbour", "run/self", "given"]) mkdirSync(at(name), { recursive: true });
  for (const name of ["master.key", "verk.db", "native/library.so", "run/neighbour/secret"])
    writeFileSync(at(name), "x");
  const listen = async (where: number | string) => {
    const server = createServer((socket) => socket.end());
    servers.push(server);
    const ready = Promise.withResolvers<void>();
    if (typeof where === "number") server.listen(where, "127.0.0.1", ready.resolve);
    else server.listen(where, ready.resolve);
    await ready.promise;
    return server;
  };
  port = ((await listen(0)).address() as { port: number }).port;
  await listen(at("run/neighbour/s"));
});
afterAll(() => {
  neighbour.kill("SIGKILL");
  for (const server of servers) server.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Starts the attacks as the server starts a worker of this kind. */
async function attack(kind: ConfinedKind, without: readonly WorkerLayer[] = []): Promise<Record<string, string>> {
  const target = {
    masterKey: at("master.key"),
    database: at("verk.db"),
    neighbour: at("run/neighbour"),
    library: at("native/library.so"),
    own: at("run/self"),
    port,
    socket: at("run/neighbour/s"),
    pid: neighbour.pid,
  };
  const argv = confinedIn(
    dir,
    without,
  )({
    kind,
    argv: [process.execPath, ATTACKS, JSON.stringify(target)],
    env: {},
    folder: { own: at("run/self"), given: at("given"), socketPath: at("run/self/s") },
    grants: {},
  });
  const child = Bun.spawn([...argv], {
    cwd: at("run/self"),
    env: { HOME: at("run/self") },
    stdin: "ignore",
    stderr: "pipe",
  });
  const [text, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(errors);
  return JSON.parse(text) as Record<string, string>;
}

const succeeded = (lines: Record<string, string>) => Object.keys(lines).filter((name) => lines[name] === "ok");
const ALLOWED = ["write in its folder", "write a file without a name"];
const FILES = [
  "read master.key",
  "open verk.db",
  "change verk.db",
  "read what another worker has",
  "write outside",
  "leave a link for the server",
  "replace a library",
  "start a program",
];

test.skipIf(HOLDING.length < WORKER_LAYERS.length)("this machine has every layer", () => {
  expect(HOLDING).toEqual([...WORKER_LAYERS]);
});

describe.skipIf(!HOLDING.includes("landlock"))("M6: a hijacked worker", () => {
  test.each(OFFLINE)("%s reaches no file but its own, no network, no process", async (kind) => {
    expect(succeeded(await attack(kind))).toEqual(ALLOWED);
  });

  test("connector reaches the network and nothing else", async () => {
    expect(succeeded(await attack("connector"))).toEqual(["dial 127.0.0.1", ...ALLOWED]);
  });

  test.each(KINDS)("%s without landlock reads the master key", async (kind) => {
    expect(succeeded(await attack(kind, ["landlock"]))).toEqual(expect.arrayContaining(FILES));
  });

  test.each(KINDS)("%s without seccomp is traced, and makes sockets", async (kind) => {
    const lines = succeeded(await attack(kind, ["seccomp"]));
    expect(lines).toEqual(expect.arrayContaining(["ptrace", "dial another worker", "send a datagram"]));
    expect(lines).not.toContain("read master.key");
  });

  test.each(WORKER_LAYERS.filter((layer) => layer !== "no_new_privs"))(
    "each layer around the network holds alone: %s",
    async (layer) => {
      const others = WORKER_LAYERS.filter((each) => each !== layer);
      expect((await attack("detector", others))["dial 127.0.0.1"]).not.toBe("ok");
    },
  );

  test("without any layer every attack succeeds", async () => {
    const lines = await attack("detector", WORKER_LAYERS);
    expect(Object.entries(lines).filter(([, how]) => how !== "ok")).toEqual([]);
  });
});

describe("verk-confine", () => {
  const run = (...args: string[]) => {
    const { exitCode, stderr, stdout } = Bun.spawnSync([HELPER, ...args], { env: {} });
    return { exitCode, said: stderr.toString() + stdout.toString() };
  };

  test.each([
    [["--layers", "walls", "--", "/bin/true"], "walls: no such layer"],
    [["--nonsense", "x", "--", "/bin/true"], "--nonsense: no such option"],
    [["--reads"], "--reads: needs a value"],
    [["--layers", "seccomp"], "a program must follow"],
    [["--layers", "landlock", "--writes", "/does/not/exist", "--", "/bin/true"], "/does/not/exist: No such file"],
    [["--before", "1", "/bin/false", "--", "/bin/echo", "reached"], ""],
  ])("%j ends with 126 and says why", (args, text) => {
    const { exitCode, said } = run(...args);
    expect(exitCode).toBe(126);
    expect(said).toContain(text);
    expect(said).not.toContain("reached");
  });

  test("code before the call is not restricted, and code after it is", () => {
    const made = at("made");
    const script = ["/bin/sh", "-c", `echo x >${made}`];
    const confined = ["--layers", "landlock", "--runs", "/usr", "--runs", "/lib"];
    expect(run(...confined, "--before", "3", ...script, "--", ...script).exitCode).toBe(2);
    expect(run(...confined, "--", "/bin/cat", made).exitCode).toBe(1);
    expect(run(...confined, "--reads", made, "--", "/bin/cat", made)).toEqual({ exitCode: 0, said: "x\n" });
  });
});

test.skipIf(!HOLDING.includes("landlock"))(
  "a worker on a GPU may name its threads, which the driver insists on, and change nothing else in /proc",
  async () => {
    const script =
      'const { openSync } = require("node:fs"); const out = {};' +
      'for (const path of ["/proc/self/task/" + process.pid + "/comm", "/proc/self/oom_score_adj"])' +
      'try { openSync(path, "w"); out[path.split("/").at(-1)] = "ok" } catch (e) { out[path.split("/").at(-1)] = e.code }' +
      "process.stdout.write(JSON.stringify(out))";
    const named = async (gpu: boolean) => {
      const argv = confinedIn(dir)({
        kind: "serving",
        argv: [process.execPath, "-e", script],
        env: { CUDA_CACHE_PATH: at("cuda") },
        folder: { own: at("run/self"), given: at("given"), socketPath: at("run/self/s") },
        grants: { gpu },
      });
      return await new Response(Bun.spawn([...argv], { cwd: at("run/self"), env: {} }).stdout).json();
    };
    expect(await named(true)).toEqual({ comm: "ok", oom_score_adj: "EACCES" });
    expect(await named(false)).toEqual({ comm: "EACCES", oom_score_adj: "EACCES" });
  },
);
