import { afterEach, expect, test } from "bun:test";
import { existsSync, statSync, writeFileSync } from "node:fs";
import { connect as connectTcp } from "node:net";
import { join } from "node:path";
import { type Issued, issue, issueAuthority } from "../../src/platform/tls/issue.ts";
import { manyApps, tempDir } from "../harness.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const names = ["localhost", "127.0.0.1"];
const serverOf = (ca: Issued) => issue(ca, { names, days: 30, purpose: "server", nowMs: Date.now() });

async function world(flags: Record<string, unknown> = {}) {
  const dir = tempDir();
  const ca = await issueAuthority("test", Date.now());
  const files = { cert: join(dir, "s.crt"), key: join(dir, "s.key"), ca: join(dir, "ca.crt") };
  const put = async (authority: Issued) => {
    const made = await serverOf(authority);
    writeFileSync(files.key, made.key);
    writeFileSync(files.cert, made.cert);
  };
  await put(ca);
  writeFileSync(files.ca, ca.cert);
  const more = typeof flags["http.tls_client_ca"] === "string" ? { "http.tls_client_ca": files.ca } : {};
  const settings = { "http.listen": "127.0.0.1:0", "http.tls_cert": files.cert, "http.tls_key": files.key };
  const app = open({ parts: ["http"], flags: { ...settings, ...flags, ...more } });
  const port = app.ctx.state.http.listener?.port ?? 0;
  const get = (trusted: string, path = "/healthz", tls: object = {}, init: BunFetchRequestInit = {}) =>
    fetch(`https://localhost:${port}${path}`, { ...init, keepalive: false, tls: { ca: trusted, ...tls } });
  return { app, ca, files, put, port, get };
}
const codeOf = (attempt: Promise<Response>) =>
  attempt.then(
    () => "connected",
    (error: { code?: string }) => error.code ?? "failed",
  );

test("a certificate of our authority serves https with HSTS, and nobody else is trusted", async () => {
  const { ca, get } = await world();
  const answer = await get(ca.cert);
  expect([answer.status, answer.headers.get("strict-transport-security")]).toEqual([200, "max-age=86400"]);
  const other = await issueAuthority("other", Date.now());
  expect(await codeOf(get(other.cert))).not.toBe("connected");
});

test("a changed certificate is used without a restart, and a request under way is answered", async () => {
  const { app, ca, put, get, files } = await world();
  const gate = Promise.withResolvers<void>();
  const body = new ReadableStream({
    async pull(controller) {
      await gate.promise;
      controller.enqueue(new TextEncoder().encode('{"name":"late"}'));
      controller.close();
    },
  });
  const headers = { authorization: `Bearer ${app.keyA}`, "content-type": "application/json" };
  const late = get(ca.cert, "/v1/api_keys", {}, { method: "POST", body, headers });
  expect((await get(ca.cert)).status).toBe(200);
  const next = await issueAuthority("next", Date.now());
  await put(next);
  app.ctx.state.http.renewTls?.();
  expect((await get(next.cert)).status).toBe(200);
  expect(await codeOf(get(ca.cert))).not.toBe("connected");
  gate.resolve();
  expect((await late).status).toBe(201);
  writeFileSync(files.key, "half a file");
  expect(() => app.ctx.state.http.renewTls?.()).toThrow("http.tls_key");
  expect((await get(next.cert)).status).toBe(200);
});

test("with http.tls_client_ca only clients with a certificate connect", async () => {
  const { ca, get } = await world({ "http.tls_client_ca": "set below" });
  expect(await codeOf(get(ca.cert))).not.toBe("connected");
  const { cert, key } = await issue(ca, { names: ["ada"], days: 1, purpose: "client", nowMs: Date.now() });
  expect((await get(ca.cert, "/healthz", { cert, key })).status).toBe(200);
  const stranger = await issue(await issueAuthority("x", Date.now()), {
    names: ["eve"],
    days: 1,
    purpose: "client",
    nowMs: Date.now(),
  } as Parameters<typeof issue>[1]);
  expect(await codeOf(get(ca.cert, "/healthz", { cert: stranger.cert, key: stranger.key }))).not.toBe("connected");
});

test("the plain port redirects browsers, and refuses a key that was sent in clear text", async () => {
  const redirect = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const at = redirect.port;
  redirect.stop(true);
  const { port } = await world({ "http.redirect_listen": `127.0.0.1:${at}` });
  const plain = (init: RequestInit) => fetch(`http://127.0.0.1:${at}/runs?x=1`, { ...init, redirect: "manual" });
  const answer = await plain({});
  expect([answer.status, answer.headers.get("location")]).toEqual([308, `https://127.0.0.1:${port}/runs?x=1`]);
  for (const init of [{ headers: { authorization: "Bearer x" } }, { method: "POST", body: "{}" }]) {
    const refused = await plain(init);
    expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining("only redirects browsers")]);
  }
});

test("commands of this machine use a socket that only its owner reaches", async () => {
  const { app } = await world({ "http.public_url": "https://verk.example" });
  const unix = join(app.dir, "run", "server.sock");
  expect([existsSync(unix), statSync(join(app.dir, "run")).mode & 0o777]).toEqual([true, 0o700]);
  const answer = await fetch("http://socket.localhost/healthz", { unix });
  expect([answer.status, answer.headers.has("strict-transport-security")]).toEqual([200, false]);
});

/** A ClientHello that offers nothing newer than `minor` (2 = TLS 1.1, 3 = TLS 1.2). */
function hello(minor: number): Uint8Array {
  const ciphers = [0xc0, 0x09, 0xc0, 0x0a, 0xc0, 0x2b, 0xc0, 0x2f, 0x00, 0x2f];
  const groups = [0, 10, 0, 4, 0, 2, 0, 23]; // secp256r1
  const signatures = [0, 13, 0, 4, 0, 2, 4, 3]; // ecdsa_secp256r1_sha256
  const extensions = [...groups, ...signatures];
  const rest = [0, 0, ciphers.length, ...ciphers, 1, 0, 0, extensions.length, ...extensions];
  const body = [3, minor, ...new Uint8Array(32).fill(7), ...rest];
  const message = [1, 0, 0, body.length, ...body];
  return new Uint8Array([22, 3, 1, 0, message.length, ...message]);
}

test("no protocol below TLS 1.2 is accepted", async () => {
  const { port } = await world();
  const firstBytes = (bytes: Uint8Array) =>
    new Promise<number[]>((done, failed) => {
      const socket = connectTcp(port, "127.0.0.1", () => socket.write(bytes));
      socket.once("data", (data: Buffer) => {
        socket.destroy();
        done([...data.subarray(0, 1), ...data.subarray(5, 7)]);
      });
      socket.once("error", failed);
    });
  const PROTOCOL_VERSION = [21, 2, 70]; // a fatal alert
  for (const minor of [0, 1, 2]) expect(await firstBytes(hello(minor))).toEqual(PROTOCOL_VERSION);
  expect((await firstBytes(hello(3)))[0]).toBe(22); // a handshake begins
});
