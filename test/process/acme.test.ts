// tier: all (checks of a release)
/** `verk tls acme` against pebble, the test authority of Let's Encrypt, on loopback. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import { issue, issueAuthority } from "../../src/platform/tls/issue.ts";
import { program, runVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";

const isHere = Bun.which("pebble") !== null && Bun.which("pebble-challtestsrv") !== null;
const root = tempDir();
const dir = join(root, "data");
const NAME = "verk.lab.test";
const ports = { acme: 0, management: 0, dns: 0, control: 0, http: 0, tls: 0 };
const children: Bun.Subprocess[] = [];
afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(root, { recursive: true, force: true });
});

/** All ports are open at once, so they differ. */
async function choosePorts() {
  const servers = Object.keys(ports).map(() =>
    Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() }),
  );
  for (const [i, name] of Object.keys(ports).entries()) ports[name as keyof typeof ports] = servers[i]?.port ?? 0;
  for (const server of servers) await server.stop(true);
}

beforeAll(async () => {
  if (!isHere) return;
  await choosePorts();
  const authority = await issueAuthority("pebble", Date.now());
  const own = await issue(authority, { names: ["127.0.0.1"], days: 1, purpose: "server", nowMs: Date.now() });
  writeFileSync(join(root, "ca.pem"), authority.cert);
  writeFileSync(join(root, "cert.pem"), own.cert);
  writeFileSync(join(root, "key.pem"), own.key);
  const pebble = {
    listenAddress: `127.0.0.1:${ports.acme}`,
    managementListenAddress: `127.0.0.1:${ports.management}`,
    certificate: join(root, "cert.pem"),
    privateKey: join(root, "key.pem"),
    httpPort: ports.http,
    tlsPort: ports.tls,
    ocspResponderURL: "",
    externalAccountBindingRequired: false,
  };
  writeFileSync(join(root, "pebble.json"), JSON.stringify({ pebble }));
  const dns = `127.0.0.1:${ports.dns}`;
  const off = ["-http01", "", "-https01", "", "-tlsalpn01", ""];
  const spawn = (words: string[], env = {}) =>
    children.push(Bun.spawn(words, { env, cwd: root, stdin: "ignore", stdout: "ignore", stderr: "ignore" }));
  spawn([
    ...["pebble-challtestsrv", "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dns01", dns, ...off],
    ...["-management", `127.0.0.1:${ports.control}`],
  ]);
  // Half of the nonces are rejected, as a busy authority does.
  spawn(["pebble", "-config", "pebble.json", "-dnsserver", dns], {
    PEBBLE_VA_NOSLEEP: "1",
    PEBBLE_WFE_NONCEREJECT: "50",
  });
  const tls = { ca: authority.cert };
  await until("pebble", async () => (await fetch(`https://127.0.0.1:${ports.acme}/dir`, { tls })).ok);
  mkdirSync(dir);
}, 60_000);

const acmeWith = (env: Record<string, string>, ...more: string[]) =>
  runVerk(["tls", "acme", "--data", dir, "--directory", `https://127.0.0.1:${ports.acme}/dir`, "--json", ...more], {
    cwd: root,
    env: { VERK_NETWORK__ALLOW: "127.0.0.1", VERK_NETWORK__CA_FILE: join(root, "ca.pem"), ...env },
  });
const acme = (...more: string[]) => acmeWith({}, ...more);
const certificate = () => new X509Certificate(readFileSync(join(dir, "tls", "acme.crt")));

test.skipIf(!isHere)(
  "an authority gives a certificate for a name, proved over HTTP and then in the handshake",
  async () => {
    const listen = ["--listen", `127.0.0.1:${ports.http}`];
    const made = await acme("--name", NAME, "--email", "ada@example.com", ...listen);
    expect([made.code, made.err]).toEqual([0, expect.stringContaining("the server renews them")]);
    expect(made.json()).toMatchObject({ names: [NAME], cert: join(dir, "tls", "acme.crt") });
    const first = certificate();
    expect([first.checkHost(NAME), first.issuer]).toEqual([NAME, expect.stringContaining("Pebble")]);
    for (const name of ["acme.key", "acme-account.key"])
      expect(statSync(join(dir, "tls", name)).mode & 0o777).toBe(0o600);
    expect(readdirSync(join(dir, "tls", "challenges"))).toEqual([]);

    expect((await acme("--name", NAME, ...listen)).err).toContain("nothing to do");
    expect(certificate().serialNumber).toBe(first.serialNumber);

    const alpn = ["--challenge", "tls-alpn-01", "--listen", `127.0.0.1:${ports.tls}`];
    const second = await acme("--name", "other.lab.test", ...alpn);
    expect([second.code, second.err]).toEqual([0, expect.any(String)]);
    expect(certificate().checkHost("other.lab.test")).toBe("other.lab.test");
  },
  120_000,
);

const SERVING = {
  VERK_HTTP__TLS_CERT: join(dir, "tls", "acme.crt"),
  VERK_HTTP__TLS_KEY: join(dir, "tls", "acme.key"),
};

/** A server with the certificate of the authority. */
async function serve(env: Record<string, string>) {
  const child = Bun.spawn([...program(), "serve", "--data", dir, "--listen", "127.0.0.1:0"], {
    env: { HOME: dir, PATH: process.env["PATH"] ?? "", ...env },
    cwd: dir,
    stdout: "ignore",
    stderr: "ignore",
  });
  children.push(child);
  const listen = await until("the server", () => {
    const found = JSON.parse(readFileSync(join(dir, "server.json"), "utf8")) as { pid: number; listen: string | null };
    return found.pid === child.pid ? (found.listen ?? undefined) : undefined;
  });
  const uses = (serial: string) =>
    until("the server to use the certificate", () => serialOf(listen).then((each) => each === serial), 60_000);
  return { child, uses };
}

test.skipIf(!isHere)(
  "a running server proves its name on the port that redirects, and uses the new certificate",
  async () => {
    await acme("--name", NAME, "--force", "--listen", `127.0.0.1:${ports.http}`);
    const before = certificate().serialNumber;
    const env = { ...SERVING, VERK_HTTP__REDIRECT_LISTEN: `127.0.0.1:${ports.http}` };
    const { child, uses } = await serve(env);
    const plain = `http://127.0.0.1:${ports.http}`;
    expect((await fetch(`${plain}/.well-known/acme-challenge/..%2facme.key`, { redirect: "manual" })).status).toBe(308);
    const renewed = await acmeWith(env, "--name", NAME, "--force");
    expect([renewed.code, renewed.err]).toEqual([0, expect.any(String)]);
    expect(certificate().serialNumber).not.toBe(before);
    await uses(certificate().serialNumber);
    child.kill("SIGKILL");
    await child.exited;
  },
  120_000,
);

test.skipIf(!isHere)(
  "the server renews a certificate by itself, here because its names changed",
  async () => {
    const { child, uses } = await serve({
      ...SERVING,
      VERK_HTTP__REDIRECT_LISTEN: `127.0.0.1:${ports.http}`,
      VERK_ACME__DIRECTORY: `https://127.0.0.1:${ports.acme}/dir`,
      VERK_ACME__NAMES: `${NAME},second.lab.test`,
      VERK_NETWORK__ALLOW: "127.0.0.1",
      VERK_NETWORK__CA_FILE: join(root, "ca.pem"),
    });
    await until("the new certificate", () => certificate().checkHost("second.lab.test") !== undefined, 60_000);
    await uses(certificate().serialNumber);
    child.kill("SIGKILL");
    await child.exited;
  },
  120_000,
);

test.skipIf(!isHere)(
  "a name that cannot be proved is one sentence with the reason, and the old certificate stays",
  async () => {
    const before = readFileSync(join(dir, "tls", "acme.crt"), "utf8");
    const other = await acme("--name", "wrong.lab.test", "--challenge", "tls-alpn-01", "--listen", "127.0.0.1:0");
    expect([other.code, other.err]).toEqual([
      1,
      expect.stringMatching(/^verk: The authority rejects the proof of wrong\.lab\.test: .+\n$/),
    ]);
    expect(readFileSync(join(dir, "tls", "acme.crt"), "utf8")).toBe(before);
    for (const [words, message] of [
      [["--name", "a b"], "--name"],
      [["--name", NAME, "--challenge", "dns-01"], "--challenge"],
      [[], "--name"],
    ] as const)
      expect(await acme(...words)).toMatchObject({ code: 2, err: expect.stringContaining(message) });
  },
  120_000,
);

function serialOf(listen: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const [host = "", port = ""] = listen.split(":");
  const socket = connect({ host, port: Number(port), rejectUnauthorized: false, servername: NAME }, () => {
    resolve(socket.getPeerX509Certificate?.()?.serialNumber ?? socket.getPeerCertificate().serialNumber);
    socket.end();
  });
  socket.once("error", reject);
  return promise;
}
