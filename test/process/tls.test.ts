import { afterEach, expect, test } from "bun:test";
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { runVerk, spawnVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

test("verk tls init, serve, a client that trusts the authority, commands over the socket, and a renewal", async () => {
  const dir = tempDir();
  undo.push(() => rmSync(dir, { recursive: true, force: true }));
  const init = (...more: string[]) => runVerk(["tls", "init", "--data", dir, "--json", ...more], { cwd: dir });
  const made = (await init("--name", "verk.test")).json();
  expect(made.names).toEqual(expect.arrayContaining(["verk.test", "localhost", "127.0.0.1"]));
  for (const name of ["ca.key", "server.key"]) expect(statSync(join(dir, "tls", name)).mode & 0o777).toBe(0o600);
  const ca = readFileSync(made.ca, "utf8");

  const env = { VERK_HTTP__TLS_CERT: made.cert, VERK_HTTP__TLS_KEY: made.key };
  const child = spawnVerk(["serve", "--data", dir, "--listen", "127.0.0.1:0"], { cwd: dir, env });
  undo.push(async () => {
    child.kill();
    await child.exited;
  });
  const listen = await until("the server to listen", () => {
    if (child.exitCode !== null) throw new Error("the server stopped");
    return (
      (JSON.parse(readFileSync(join(dir, "server.json"), "utf8")) as { listen: string | null }).listen ?? undefined
    );
  });
  const get = () => fetch(`https://${listen}/healthz`, { tls: { ca }, keepalive: false });
  expect((await get()).status).toBe(200);
  const status = await runVerk(["status", "--data", dir, "--json"], { cwd: dir });
  expect([status.code, status.err]).toEqual([0, ""]);

  const before = readFileSync(made.cert, "utf8");
  expect((await init()).json().new_authority).toBe(false);
  expect(readFileSync(made.cert, "utf8")).not.toBe(before);
  const doctor = await runVerk(["doctor", "--data", dir, "--json"], { cwd: dir, env });
  const found = doctor.json().checks.find(({ check }: { check: string }) => check === "TLS");
  expect(found).toMatchObject({ status: "ok", detail: expect.stringContaining("valid for") });
  expect((await get()).status).toBe(200);
});
