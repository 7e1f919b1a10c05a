// tier: all (whole paths on the executable)
import { afterEach, expect, test } from "bun:test";
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { runVerk, spawnVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

/** Returns the address of a server with these settings. */
async function serve(dir: string, env: Record<string, string>): Promise<string> {
  const child = spawnVerk(["serve", "--data", dir, "--listen", "127.0.0.1:0"], { cwd: dir, env });
  undo.push(async () => {
    child.kill();
    await child.exited;
  });
  return await until("the server to listen", () => {
    if (child.exitCode !== null) throw new Error("the server stopped");
    return (
      (JSON.parse(readFileSync(join(dir, "server.json"), "utf8")) as { listen: string | null }).listen ?? undefined
    );
  });
}

test("verk tls init, serve, a client that trusts the authority, commands over the socket, and a renewal", async () => {
  const dir = tempDir();
  undo.push(() => rmSync(dir, { recursive: true, force: true }));
  const init = (...more: string[]) => runVerk(["tls", "init", "--data", dir, "--json", ...more], { cwd: dir });
  const made = (await init("--name", "verk.test")).json();
  expect(made.names).toEqual(expect.arrayContaining(["verk.test", "localhost", "127.0.0.1"]));
  for (const name of ["ca.key", "server.key"]) expect(statSync(join(dir, "tls", name)).mode & 0o777).toBe(0o600);
  const ca = readFileSync(made.ca, "utf8");

  const env = { VERK_HTTP__TLS_CERT: made.cert, VERK_HTTP__TLS_KEY: made.key };
  const listen = await serve(dir, env);
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

const OPENSSL = Bun.which("openssl");

/** The line of openssl about the connection, such as "TLSv1.3, Cipher is …". `(NONE)`: the server refused. */
async function handshake(address: string, ...args: string[]): Promise<string> {
  const child = Bun.spawn([OPENSSL ?? "", "s_client", "-connect", address, ...args], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "ignore",
  });
  return /^(?:New|Reused), (.*)$/m.exec(await new Response(child.stdout).text())?.[1] ?? "no connection";
}

const OLD = [["-tls1"], ["-tls1_1"]];
/** The level lets openssl itself offer what it thinks too weak. */
const ANY = ["-cipher", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"];
const REFUSED = "(NONE), Cipher is (NONE)";

test.skipIf(!OPENSSL)(
  "openssl: no protocol under TLS 1.2, and no cipher without forward secrecy",
  async () => {
    const dir = tempDir();
    undo.push(() => rmSync(dir, { recursive: true, force: true }));
    const made = (await runVerk(["tls", "init", "--data", dir, "--json"], { cwd: dir })).json();
    const address = await serve(dir, { VERK_HTTP__TLS_CERT: made.cert, VERK_HTTP__TLS_KEY: made.key });
    for (const protocol of OLD)
      expect([protocol, await handshake(address, ...protocol, ...ANY)]).toEqual([protocol, REFUSED]);
    expect(await handshake(address, "-tls1_2", ...ANY)).toStartWith("TLSv1.2, Cipher is ECDHE-");
    expect(await handshake(address, "-tls1_3")).toStartWith("TLSv1.3, Cipher is TLS_");
    for (const weak of ["aNULL", "eNULL", "3DES", "RC4", "kRSA", "kDHE", "PSK", "CAMELLIA"])
      expect([weak, await handshake(address, "-tls1_2", "-cipher", `${weak}:@SECLEVEL=0`)]).toEqual([
        weak,
        expect.stringMatching(/^\(NONE\)|^no connection$/), // without a connection openssl itself lacks these ciphers
      ]);
  },
  60_000,
);

test.skipIf(!OPENSSL)(
  "the same commands connect to a server that takes old protocols",
  async () => {
    const dir = tempDir();
    undo.push(() => rmSync(dir, { recursive: true, force: true }));
    const made = (await runVerk(["tls", "init", "--data", dir, "--json"], { cwd: dir })).json();
    for (const protocol of OLD) {
      const old = Bun.spawn(
        [
          OPENSSL ?? "",
          "s_server",
          "-accept",
          "127.0.0.1:0",
          "-cert",
          made.cert,
          "-key",
          made.key,
          ...protocol,
          ...ANY,
        ],
        { stdin: "pipe", stdout: "pipe", stderr: "ignore" },
      );
      undo.push(() => old.kill());
      let said = "";
      const port = await (async () => {
        for await (const chunk of old.stdout) {
          said += new TextDecoder().decode(chunk);
          const found = /ACCEPT 127\.0\.0\.1:(\d+)/.exec(said)?.[1];
          if (found) return found;
        }
        throw new Error(`openssl s_server did not start: ${said}`);
      })();
      expect(await handshake(`127.0.0.1:${port}`, ...protocol, ...ANY)).not.toBe(REFUSED);
    }
  },
  60_000,
);

const SSLSCAN = Bun.which("sslscan");

test.skipIf(!SSLSCAN)(
  "sslscan: TLS 1.2 and 1.3 alone, no renegotiation, no weak cipher",
  async () => {
    const dir = tempDir();
    undo.push(() => rmSync(dir, { recursive: true, force: true }));
    const made = (await runVerk(["tls", "init", "--data", dir, "--json"], { cwd: dir })).json();
    const address = await serve(dir, { VERK_HTTP__TLS_CERT: made.cert, VERK_HTTP__TLS_KEY: made.key });
    const child = Bun.spawn([SSLSCAN ?? "", "--no-colour", address], { stdout: "pipe", stderr: "ignore" });
    const text = await new Response(child.stdout).text();
    for (const old of ["SSLv2", "SSLv3", "TLSv1.0", "TLSv1.1"]) expect(text).toMatch(new RegExp(`${old} +disabled`));
    for (const now of ["TLSv1.2", "TLSv1.3"]) expect(text).toMatch(new RegExp(`${now} +enabled`));
    expect(text).toContain("Session renegotiation not supported");
    const bits = [...text.matchAll(/^(?:Preferred|Accepted) .*? (\d+) bits +(\S+)/gm)];
    expect(bits.length).toBeGreaterThan(3);
    expect(bits.filter(([, size, cipher]) => Number(size) < 128 || !/^(TLS_|ECDHE-)/.test(cipher ?? ""))).toEqual([]);
  },
  60_000,
);
