/** A hostile ACME authority on loopback, and servers that offer old TLS or none. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadConfig } from "../../src/platform/config/config.ts";
import { guardedDial } from "../../src/platform/network/http_client.ts";
import { orderCertificate } from "../../src/platform/tls/acme.ts";
import { type Issued, issue, issueAuthority } from "../../src/platform/tls/issue.ts";
import { tempDir, until } from "../harness.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const { privateKey: accountKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
let own: Issued;
let dial: ReturnType<typeof guardedDial>;
beforeAll(async () => {
  const authority = await issueAuthority("hostile", Date.now());
  own = await issue(authority, { names: ["127.0.0.1"], days: 1, purpose: "server", nowMs: Date.now() });
  writeFileSync(join(dir, "ca.pem"), authority.cert);
  writeFileSync(join(dir, "cert.pem"), own.cert);
  writeFileSync(join(dir, "key.pem"), own.key);
  const flags = { data_dir: dir, "network.allow": ["127.0.0.1"], "network.ca_file": join(dir, "ca.pem") };
  dial = guardedDial(loadConfig({ env: { HOME: dir }, flags }).network);
});

type Reply = object | string | Response | ((base: string) => object);
type Paths = Record<string, Reply>;
const ORDER = (base: string) => ({
  status: "pending",
  authorizations: [`${base}/authz`],
  finalize: `${base}/finalize`,
});
const AUTHORIZATION = (base: string) => ({
  status: "pending",
  identifier: { type: "dns", value: "a.test" },
  challenges: [{ type: "http-01", url: `${base}/challenge`, token: "t".repeat(32) }],
});
const HONEST: Paths = {
  "/dir": (base) => ({ newNonce: `${base}/nonce`, newAccount: `${base}/account`, newOrder: `${base}/order` }),
  "/nonce": {},
  "/account": {},
  "/order": ORDER,
  "/authz": AUTHORIZATION,
  "/challenge": {},
  "/finalize": {},
};

/** Orders a certificate from an authority with these answers. Returns the message, the proofs and the paths requests. */
async function order(paths: Paths, directory?: (base: string) => string) {
  const requests: string[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    tls: { cert: own.cert, key: own.key },
    fetch(request) {
      const { pathname, origin } = new URL(request.url);
      requests.push(pathname);
      const reply = { ...HONEST, ...paths }[pathname] ?? {};
      if (reply instanceof Response) return reply.clone();
      const body = typeof reply === "function" ? (reply as (base: string) => object)(origin) : reply;
      const headers = { "replay-nonce": "n", location: `${origin}/order`, "content-type": "application/json" };
      return new Response(typeof body === "string" ? body : JSON.stringify(body), { headers });
    },
  });
  const proofs: string[] = [];
  const base = server.url.origin;
  try {
    const certificate = await orderCertificate({
      dial,
      directory: directory?.(base) ?? `${base}/dir`,
      accountKey,
      email: undefined,
      names: ["a.test"],
      kind: "http-01" as const,
      csr: new Uint8Array(10),
      prove: async ({ name, token }) => {
        proofs.push(`${name} ${token}`);
        return () => {};
      },
    });
    return { message: "", proofs, requests, certificate };
  } catch (error) {
    return { message: (error as Error).message, proofs, requests, certificate: "" };
  } finally {
    await server.stop(true);
  }
}

const PLAIN = (name: string) => (base: string) => ({
  ...(HONEST["/dir"] as (base: string) => object)(base),
  [name]: `${base.replace("https:", "http:")}/x`,
});
const OTHER = (name: string) => (base: string) => ({
  ...(HONEST["/dir"] as (base: string) => object)(base),
  [name]: "https://127.0.0.2:1/x",
});
const challenge = (token: string) => (base: string) => ({
  ...AUTHORIZATION(base),
  challenges: [{ type: "http-01", url: `${base}/challenge`, token }],
});

describe("an ACME authority", () => {
  const ATTACKS: Record<string, [Paths, string]> = {
    "with a plain address of accounts": [{ "/dir": PLAIN("newAccount") }, "another host: http://"],
    "with a plain address of nonces": [{ "/dir": PLAIN("newNonce") }, "another host: http://"],
    "with a plain address of orders": [{ "/dir": PLAIN("newOrder") }, "another host: http://"],
    "that names another host": [{ "/dir": OTHER("newOrder") }, "another host: https://127.0.0.2"],
    "that names a file": [
      { "/dir": (base) => ({ ...OTHER("x")(base), newOrder: "file:///etc/passwd" }) },
      "another host",
    ],
    "that names nothing": [{ "/dir": { newNonce: 1, newAccount: [], newOrder: null } }, "newNonce: "],
    "that redirects": [
      { "/dir": new Response(null, { status: 302, headers: { location: "https://127.0.0.2/dir" } }) },
      "status 302",
    ],
    "that redirects the order": [
      { "/order": new Response(null, { status: 307, headers: { location: "https://127.0.0.2/order" } }) },
      "answers 307",
    ],
    "with a directory of a megabyte": [{ "/dir": `{"x":"${"x".repeat(2 ** 20)}"}` }, "more than 262144 bytes"],
    "with an order of a megabyte": [{ "/order": `{"x":"${"x".repeat(2 ** 20)}"}` }, "too long"],
    "with 101 authorizations": [
      { "/order": (base) => ({ ...ORDER(base), authorizations: Array(101).fill(`${base}/authz`) }) },
      "authorizations: ",
    ],
    "with authorizations elsewhere": [
      { "/order": (base) => ({ ...ORDER(base), authorizations: ["https://169.254.169.254/latest"] }) },
      "another host",
    ],
    "with a certificate elsewhere": [
      {
        "/authz": (base) => ({ ...AUTHORIZATION(base), status: "valid" }),
        "/order": (base) => ({ ...ORDER(base), status: "valid", certificate: "http://169.254.169.254/" }),
      },
      "another host",
    ],
    "that wants a proof of another name": [
      { "/authz": (base) => ({ ...AUTHORIZATION(base), identifier: { type: "dns", value: "bank.test" } }) },
      "bank.test, which was not ordered",
    ],
    "with a token that is a path": [{ "/authz": challenge("../../../../etc/cron.d/x") }, "token"],
    "with a token without an end": [{ "/authz": challenge("t".repeat(100_000)) }, "token"],
    "with deep lists": [{ "/order": "[".repeat(100_000) }, "is not JSON"],
  };
  test.each(Object.keys(ATTACKS))("%s gives no certificate", async (name) => {
    const [paths, message] = ATTACKS[name] as [Paths, string];
    const found = await order(paths);
    expect(found).toMatchObject({ message: expect.stringContaining(message), proofs: [], certificate: "" });
  });

  test("whose directory is plain is refused before a connection", async () => {
    const found = await order({}, (base) => `${base.replace("https:", "http:")}/dir`);
    expect(found).toMatchObject({ message: expect.stringContaining("https"), requests: [] });
  });

  test("that rejects every nonce is left after some tries", async () => {
    const rejected = Response.json({ type: "urn:ietf:params:acme:error:badNonce" }, { status: 400 });
    const found = await order({ "/account": rejected });
    expect(found.message).toContain("answers 400");
    expect(found.requests.length).toBeLessThan(50);
  });

  test("that keeps to the rules gets its proof, and its certificate is taken", async () => {
    let isProved = false;
    const found = await order({
      "/challenge": () => {
        isProved = true;
        return {};
      },
      "/authz": (base) => ({ ...AUTHORIZATION(base), status: isProved ? "valid" : "pending" }),
      "/order": (base) => ({ ...ORDER(base), status: isProved ? "valid" : "pending", certificate: `${base}/cert` }),
      "/cert": "the certificate",
    });
    expect(found).toMatchObject({ message: "", proofs: [`a.test ${"t".repeat(32)}`], certificate: "the certificate" });
  });
});

describe.skipIf(Bun.which("openssl") === null)("a server that offers", () => {
  test.each([
    ["-tls1", false],
    ["-tls1_1", false],
    ["-tls1_2", true],
    ["-tls1_3", true],
  ])("%s alone is reached: %p", async (version, isReached) => {
    const words = ["s_server", "-accept", "127.0.0.1:0", "-www", "-cert", "cert.pem", "-key", "key.pem"];
    const child = Bun.spawn(["openssl", ...words, version, "-cipher", "ALL:@SECLEVEL=0"], {
      cwd: dir,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "ignore",
    });
    try {
      const port = await portOf(child.stdout);
      const answer = dial(`https://127.0.0.1:${port}/`, { timeoutMs: 60_000 });
      const status = await answer.then(
        ({ status: code }) => code,
        (error: Error) => error.message,
      );
      expect(status).toEqual(isReached ? 200 : expect.stringContaining("TLS failed"));
    } finally {
      child.kill("SIGKILL");
    }
  });
});

/** openssl prints "ACCEPT 127.0.0.1:PORT". */
async function portOf(stream: ReadableStream<Uint8Array>): Promise<number> {
  let text = "";
  const reader = stream.getReader();
  return await until("the port", async () => {
    const { value } = await reader.read();
    text += new TextDecoder().decode(value);
    const found = /ACCEPT .*:(\d+)/.exec(text)?.[1];
    return found === undefined ? undefined : Number(found);
  });
}
