import { afterEach, expect, test } from "bun:test";
import { chmodSync, chownSync, copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { makeKey, program, runVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";

const dirs: string[] = [];
const fresh = () => {
  dirs.push(tempDir());
  return dirs.at(-1) as string;
};
afterEach(() => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
});

const NOBODY = 65_534; // an unprivileged user of Debian whose home, /nonexistent, does not exist
const isRoot = process.getuid?.() === 0;
const isCompiled = program().length === 1;

test.skipIf(!isRoot || !isCompiled)(
  "serves from an empty directory under a user without a home directory",
  async () => {
    const root = fresh();
    chmodSync(root, 0o755);
    const binary = join(root, "verk");
    copyFileSync(program()[0] as string, binary);
    const cwd = join(root, "empty");
    mkdirSync(cwd);
    chownSync(cwd, NOBODY, NOBODY);
    const run = ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups", binary];
    const server = Bun.spawn([...run, "serve", "--listen", "127.0.0.1:0"], { cwd, env: {}, stderr: "pipe" });
    let log = "";
    void (async () => {
      for await (const chunk of server.stderr) log += new TextDecoder().decode(chunk);
    })();
    const url = await until("the address", () => /listening on (http:[^\s"]+)/.exec(log)?.[1]);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
    expect(readdirSync(cwd)).toEqual([".local"]);
  },
);

test.skipIf(!isRoot)("root working in another user's data directory leaves no files of root there", async () => {
  const dir = fresh();
  chownSync(dir, NOBODY, NOBODY);
  await makeKey(dir);
  const files = readdirSync(dir);
  expect(files).toContain("master.key");
  expect(files.filter((file) => statSync(join(dir, file)).uid !== NOBODY)).toEqual([]);
});

test("a reader that closes the pipe early is no error", async () => {
  // A pipe whose last reader has gone: the first write into it is an EPIPE.
  const script = `mkfifo "$1"; exec 3<>"$1" 4>"$1" 3>&-; shift; exec "$@" config default >&4`;
  const pipe = join(fresh(), "pipe");
  const env = { HOME: "/", PATH: "/usr/bin:/bin" };
  const child = Bun.spawn(["bash", "-c", script, "-", pipe, ...program()], { stderr: "pipe", env });
  expect(await new Response(child.stderr).text()).toBe("");
  expect(await child.exited).toBe(0);
});

test("F27 everything that a server prints without a terminal is one JSON object a line", async () => {
  const server = await startBinary({ dir: fresh() });
  await server.kill("SIGTERM");
  const lines = server.stderr().trim().split("\n");
  expect(lines.length).toBeGreaterThan(2);
  for (const line of lines) expect(Object.keys(JSON.parse(line)).slice(0, 3)).toEqual(["time", "level", "msg"]);
});

test("F4 setup link: the link in the log of a first start works once, and no key is printed", async () => {
  const server = await startBinary({ dir: fresh() });
  try {
    expect(server.stderr()).not.toContain("vk_");
    const token = await until("the link", () => /\/setup\?token=([\w-]+)/.exec(server.stderr())?.[1]);
    const redeem = () =>
      fetch(`${server.url}/setup`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ token }),
      });
    const answer = await redeem();
    const { key } = (await answer.json()) as { key: string };
    expect([answer.status, key.slice(0, 3)]).toEqual([201, "vk_"]);
    expect((await redeem()).status).toBe(401);
  } finally {
    await server.kill("SIGTERM");
  }
});

test.skipIf(Bun.which("script") === null)(
  "F9, F27 a terminal gets one line with the link that signs in, also after a command, and no other log than starts and stops",
  async () => {
    const dir = fresh();
    const command = `${program().join(" ")} serve --data ${dir} --listen 127.0.0.1:0`;
    const child = Bun.spawn(["script", "-qefc", command, "/dev/null"], {
      env: { HOME: dir, PATH: process.env["PATH"] ?? "" },
      stdin: "pipe",
      stdout: "pipe",
    });
    let said = "";
    void (async () => {
      for await (const chunk of child.stdout) said += new TextDecoder().decode(chunk);
    })();
    const line = /Dashboard: (http:\/\/\S+)\/setup\?token=([\w-]+) \(signs you in; works once, for 24 hours\)\r\n/;
    const [, url, token] = await until("the link", () => line.exec(said) ?? undefined);
    expect((await runVerk(["status", "--data", dir], { cwd: dir })).code).toBe(0); // the command makes a key for itself
    const headers = { "content-type": "application/json" };
    const redeem = () => fetch(`${url}/setup`, { method: "POST", headers, body: JSON.stringify({ token }) });
    const answer = await redeem();
    const { key } = (await answer.json()) as { key: string };
    expect((await fetch(`${url}/v1/account`, { headers: { authorization: `Bearer ${key}` } })).status).toBe(200);
    expect((await redeem()).status).toBe(401);
    child.stdin.write("\u0003"); // Ctrl-C, as typed
    child.stdin.flush();
    await child.exited;
    const expected = /^(Warning: |verk \S+ listening on |Dashboard: |Stopping\. |Stopped\.|\^C)/;
    expect(
      said
        .trim()
        .split(/\r?\n/)
        .filter((each) => !expected.test(each)),
    ).toEqual([]);
  },
);

test("a server may have many open requests, and the operator can set the limit", async () => {
  const named = async (env: Record<string, string>) => {
    const server = await startBinary({ env });
    try {
      return /^BUN_CONFIG_MAX_HTTP_REQUESTS=(\d+)$/m.exec(
        readFileSync(`/proc/${server.pid}/environ`, "utf8").replaceAll("\0", "\n"),
      )?.[1];
    } finally {
      await server.kill();
      rmSync(server.dir, { recursive: true, force: true });
    }
  };
  expect([await named({}), await named({ BUN_CONFIG_MAX_HTTP_REQUESTS: "512" })]).toEqual(["16384", "512"]);
});

test("SIGTERM ends open streams, lets a request in flight finish, and exits 0", async () => {
  const dir = fresh();
  const { key } = await makeKey(dir);
  const server = await startBinary({ dir });
  const headers = { authorization: `Bearer ${key}` };
  const stream = await fetch(`${server.url}/v1/events?stream=1`, { headers });
  const text = stream.text(); // ends when the server ends it
  const created = fetch(`${server.url}/v1/api_keys`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ name: "in flight" }),
  });
  expect((await created).status).toBe(201);
  const { code, signal } = await server.kill("SIGTERM");
  expect({ code, signal }).toEqual({ code: 0, signal: null });
  expect(await text).toContain("api_key.created");
});

test("two servers race for one data directory: one serves, the other names the first", async () => {
  const dir = fresh();
  const results = await Promise.allSettled([startBinary({ dir }), startBinary({ dir })]);
  const served = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  const { pid } = JSON.parse(readFileSync(join(dir, "server.json"), "utf8")) as { pid: number };
  const winner = served.find((server) => server.pid === pid);
  expect(winner).toBeDefined();
  const ends = await Promise.all(served.filter((server) => server !== winner).map((server) => server.exited));
  const refusals = [
    ...ends.map((end) => end.stderr),
    ...results.flatMap((result) => (result.status === "rejected" ? [String(result.reason)] : [])),
  ];
  expect(refusals).toHaveLength(1);
  expect(refusals[0]).toContain("in use by a running server");
  await winner?.kill("SIGTERM");
});
