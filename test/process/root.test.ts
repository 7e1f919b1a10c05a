/** The executable as root, on a directory of root: it warns, and nothing that handles foreign files or code is root. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, lstatSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { getPriority } from "node:os";
import { join, relative } from "node:path";
import sharp from "sharp";
import { startBinary } from "../binary.ts";
import { FAKES, writeModels } from "../detection/fake_models.ts";
import { tempDir, until } from "../harness.ts";
import { isRoot, NOBODY } from "../sandbox/nobody.ts";

setDefaultTimeout(120_000);
const asRoot = test.skipIf(!isRoot);
const [dir, weights] = [tempDir(), tempDir()];
const TLS = join(import.meta.dir, "../fixtures/tls");
const TO_RECEIVER = { VERK_NETWORK__ALLOW: "127.0.0.1", VERK_NETWORK__CA_FILE: join(TLS, "ca.pem") };
let server: Awaited<ReturnType<typeof startBinary>>;
beforeAll(async () => {
  if (!isRoot) return;
  const models = writeModels(join(weights, "models"), FAKES);
  server = await startBinary({ dir, env: { VERK_DETECT__MODELS_DIR: models, ...TO_RECEIVER } });
});
afterAll(async () => {
  await server?.kill("SIGTERM");
  for (const each of [dir, weights]) rmSync(each, { recursive: true, force: true });
});

const call = (method: string, path: string, body?: unknown) => server.call(method, path, body);
const fieldsOf = (pid: number | string) =>
  Object.fromEntries(
    readFileSync(`/proc/${pid}/status`, "utf8")
      .split("\n")
      .map((line) => line.split(":\t") as [string, string]),
  );
const childrenOf = (pid: number) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);

asRoot("it says so at the start", async () => {
  expect(fieldsOf(server.pid)["Uid"]).toStartWith("0\t0");
  await until("the warning", () => server.stderr().includes("Warning: the server runs as root."));
  expect(server.stderr()).toContain("run it with its own account");
});

asRoot("a command of a session is no root, and reads no file of the server", async () => {
  const { body } = await call("POST", "/v1/sessions", {});
  const run = async (command: string) => (await call("POST", `/v1/sessions/${body.id}/exec`, { command })).body;
  const { stdout } = await run("id -u; grep -E '^(Cap(Eff|Prm|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status");
  expect(stdout.split("\n")[0]).not.toBe("0");
  for (const name of ["CapEff", "CapPrm", "CapBnd", "CapAmb"]) expect(stdout).toContain(`${name}:\t0000000000000000`);
  expect(stdout).toContain("NoNewPrivs:\t1");
  expect(stdout).toContain("Seccomp:\t2");
  const reached = await run(`cat ${dir}/master.key ${dir}/verk.db /etc/shadow; ls ${dir}; echo end`);
  expect(reached.stdout).toBe("end\n");
  const waiting = call("POST", `/v1/sessions/${body.id}/exec`, { command: ": > begun; until [ -e go ]; do :; done" });
  const work = join(dir, "sessions", body.id, "root/workspace");
  await until("the command to run", () => lstatSync(join(work, "begun")));
  expect(lstatSync(join(work, "begun")).uid).toBe(NOBODY); // seen from outside
  await call("PUT", `/v1/sessions/${body.id}/files/content?path=/workspace/go`, "");
  expect((await waiting).body.status).toBe("completed");
});

asRoot("the server goes before its workers and its jails", async () => {
  const { body } = await call("POST", "/v1/sessions", {});
  const waiting = call("POST", `/v1/sessions/${body.id}/exec`, { command: "until [ -e go ]; do :; done" });
  expect(getPriority(server.pid)).toBe(-10);
  const session = `/proc/${server.pid}/autogroup`; // not every kernel has it, and it is empty for a process of a cgroup
  const group = existsSync(session) ? readFileSync(session, "utf8") : "";
  if (group !== "") expect(group).toContain("nice -10");
  await until("the jail", () => childrenOf(server.pid).some((pid) => getPriority(Number(pid)) === 0));
  for (const pid of childrenOf(server.pid)) expect(getPriority(Number(pid))).toBeGreaterThanOrEqual(0);
  await call("PUT", `/v1/sessions/${body.id}/files/content?path=/workspace/go`, "");
  expect((await waiting).body.status).toBe("completed");
});

asRoot("the thread for outgoing requests does not go before others", async () => {
  const tls = { cert: Bun.file(join(TLS, "server.pem")), key: Bun.file(join(TLS, "server.key")) };
  using receiver = Bun.serve({ port: 0, tls, fetch: () => new Response("ok") });
  const { body } = await call("POST", "/v1/webhooks", { url: `https://127.0.0.1:${receiver.port}/` });
  expect((await call("POST", `/v1/webhooks/${body.id}/test`, {})).status).toBeLessThan(300);
  const tasks = `/proc/${server.pid}/task`;
  const client = () =>
    readdirSync(tasks).find((task) => readFileSync(join(tasks, task, "comm"), "latin1").startsWith("HTTP Client"));
  await until("the usual priority", () => client() !== undefined && getPriority(Number(client())) === 0);
});

asRoot("a worker keeps no capability", async () => {
  const grey = await sharp({ create: { width: 64, height: 64, channels: 3, background: "#888" } })
    .png()
    .toBuffer();
  const { status } = await call("POST", "/api/detect", { image: grey.toString("base64") });
  expect(status).toBe(200);
  const workers = childrenOf(server.pid).filter((pid) =>
    readFileSync(`/proc/${pid}/cmdline`, "latin1").includes("\0worker\0"),
  );
  expect(workers.length).toBeGreaterThan(0);
  for (const pid of workers) {
    const fields = fieldsOf(pid);
    for (const name of ["CapEff", "CapPrm", "CapInh", "CapAmb"])
      expect([name, fields[name]]).toEqual([name, "0".repeat(16)]);
    expect([fields["NoNewPrivs"], fields["Seccomp"]]).toEqual(["1", "2"]);
  }
});

asRoot("no other user can read a file of the server", () => {
  const open: string[] = [];
  const visit = (at: string) => {
    const { mode, uid } = lstatSync(at);
    const name = relative(dir, at);
    const isOfJail = name.startsWith("sessions/"); // the directory above is closed to others
    if ((mode & 0o170000) !== 0o120000 && !isOfJail && (mode & 0o077) !== 0)
      open.push(`${name} ${(mode & 0o7777).toString(8)}`);
    if (!isOfJail && uid !== 0) open.push(`${name} belongs to ${uid}`);
    if ((mode & 0o170000) === 0o040000) for (const each of readdirSync(at)) visit(join(at, each));
  };
  for (const each of readdirSync(dir)) visit(join(dir, each));
  expect(open).toEqual([]);
});
