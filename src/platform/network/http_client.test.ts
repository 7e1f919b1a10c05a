import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { failpoints } from "../failpoint.ts";
import { DialError, networkPolicy, PUBLIC_ONLY } from "./address.ts";
import { type Targets, targetOf } from "./dial_target.ts";
import { type GuardedRequest, guardedFetch, guardedOpen, readCaFile } from "./http_client.ts";

const TLS = join(import.meta.dir, "../../../test/fixtures/tls");
const ca = readFileSync(join(TLS, "ca.pem"), "utf8");
const policy = networkPolicy({ allow_private: false, allow: ["127.0.0.1", "::1"] });
let lastPort: number | undefined; // of the connection it came over
let lastRequest: { method: string; path: string; headers: Headers; body: string } | undefined;

const handler = async (request: Request, server: Bun.Server<undefined>): Promise<Response> => {
  lastPort = server.requestIP(request)?.port;
  const url = new URL(request.url);
  lastRequest = {
    method: request.method,
    path: url.pathname + url.search,
    headers: request.headers,
    body: await request.text(),
  };
  if (url.pathname === "/redirect") return Response.redirect("http://127.0.0.1:1/inside", 302);
  if (url.pathname === "/long") return new Response(new Uint8Array(1 << 20).fill(120));
  if (url.pathname === "/hang") return new Promise<Response>(() => {});
  if (url.pathname === "/stall")
    return new Response(new ReadableStream({ start: (c) => c.enqueue(new Uint8Array(3)) }));
  return new Response("hello", { status: Number(url.searchParams.get("status") ?? 200), headers: { "x-a": "b" } });
};
const plain = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: handler });
const secure = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: handler,
  tls: { cert: Bun.file(join(TLS, "server.pem")), key: Bun.file(join(TLS, "server.key")) },
});
afterAll(async () => {
  await plain.stop(true);
  await secure.stop(true);
});
afterEach(() => {
  delete failpoints.hit;
});

const local = async () => [{ address: "127.0.0.1" }];
const options = (more: Partial<GuardedRequest> = {}): GuardedRequest => ({
  policy,
  timeoutMs: 60_000,
  lookup: local,
  ca,
  ...more,
});
const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => "answered",
    (error) => (error instanceof DialError ? error.code : String(error)),
  );

describe("over TLS", () => {
  test("the client connects to the checked address with the name in Host and SNI, and keeps the port", async () => {
    const answer = await guardedFetch(
      `https://hooks.example:${secure.port}/x?y=1`,
      options({ method: "POST", body: "hi", headers: { "x-s": "1", Host: "evil" } }),
    );
    expect(answer).toMatchObject({ status: 200, truncated: false, address: "127.0.0.1" });
    expect(new TextDecoder().decode(answer.body)).toBe("hello");
    expect(answer.headers.get("x-a")).toBe("b");
    expect(lastRequest).toMatchObject({ method: "POST", path: "/x?y=1", body: "hi" });
    expect(lastRequest!.headers.get("host")).toBe(`hooks.example:${secure.port}`);
    expect(lastRequest!.headers.get("x-s")).toBe("1");
  });

  test("a certificate for another name fails, also right after a good certificate", async () => {
    await guardedFetch(`https://hooks.example:${secure.port}/`, options());
    expect(await codeOf(guardedFetch(`https://other.example:${secure.port}/`, options()))).toBe("tls");
  });

  test("an untrusted authority fails, and so does a server without TLS", async () => {
    expect(await codeOf(guardedFetch(`https://hooks.example:${secure.port}/`, options({ ca: undefined })))).toBe("tls");
    expect(await codeOf(guardedFetch(`https://hooks.example:${plain.port}/`, options()))).toBe("tls");
  });

  test("an address literal is checked against the certificate's addresses", async () => {
    expect((await guardedFetch(`https://127.0.0.1:${secure.port}/`, options())).status).toBe(200);
  });
});

describe("a connection that stays open", () => {
  const portOf = async (host: string, more: Partial<GuardedRequest> = {}) => {
    await guardedFetch(`https://${host}:${secure.port}/`, options({ keepAlive: true, ...more }));
    return lastPort;
  };

  test("carries the next request for the same name at the same address, and only on request", async () => {
    const first = await portOf("hooks.example");
    expect(await portOf("hooks.example")).toBe(first!);
    expect(await portOf("hooks.example", { keepAlive: false })).not.toBe(first!);
    expect(await portOf("hooks.example")).toBe(first!);
  });

  test("carries no request for another name, another address or other authorities", async () => {
    const first = await portOf("hooks.example");
    expect(await portOf("127.0.0.1")).not.toBe(first!);
    expect(await codeOf(portOf("other.example"))).toBe("tls");
    expect(await codeOf(portOf("hooks.example", { ca: undefined }))).toBe("tls");
    const lookup = async () => [{ address: "::1" }]; // nothing listens there
    expect(await codeOf(portOf("hooks.example", { lookup }))).toBe("connection");
    expect(await codeOf(portOf("hooks.example", { lookup: async () => [{ address: "127.0.0.2" }] }))).toBe(
      "address_refused",
    );
  });
});

describe("the guard", () => {
  test.each([
    "https://127.0.0.2/",
    "https://localhost/",
    "https://user:pw@hooks.example/",
    "http://hooks.example/",
    "nonsense",
  ])("%s is refused before any connection", async (url) => {
    failpoints.hit = (at) => expect(at).toBe("never");
    expect(await codeOf(guardedFetch(url, options()))).toBe("address_refused");
  });

  test("a name that leads inside is refused, and so is one that does not resolve", async () => {
    const url = `https://hooks.example:${secure.port}/`;
    expect(await codeOf(guardedFetch(url, options({ policy: PUBLIC_ONLY })))).toBe("address_refused");
    expect(await codeOf(guardedFetch(url, options({ lookup: async () => [] })))).toBe("unresolved");
  });

  test("a rebinding name is resolved only once: the client connects to the checked address", async () => {
    let lookups = 0;
    const lookup = async () => [{ address: lookups++ === 0 ? "127.0.0.1" : "127.0.0.2" }];
    expect((await guardedFetch(`https://hooks.example:${secure.port}/`, options({ lookup }))).status).toBe(200);
    expect(lookups).toBe(1);
  });

  test("a redirect is an answer, not an order", async () => {
    const answer = await guardedFetch(`http://hooks.example:${plain.port}/redirect`, options({ allowHttp: true }));
    expect(answer.status).toBe(302);
    expect(answer.headers.get("location")).toBe("http://127.0.0.1:1/inside");
  });
});

describe("limits", () => {
  const url = (path: string) => `http://hooks.example:${plain.port}${path}`;

  test.each([
    [undefined, 65_536],
    [1000, 1000],
    [1 << 20, 1 << 20],
  ])("with a limit of %p, %d bytes are kept", async (maxResponseBytes, kept) => {
    const answer = await guardedFetch(
      url("/long"),
      options({ allowHttp: true, ...(maxResponseBytes ? { maxResponseBytes } : {}) }),
    );
    expect(answer.body.byteLength).toBe(kept);
    expect(answer.truncated).toBe(kept < 1 << 20);
  });

  test.each(["/hang", "/stall"])("%s reaches the deadline of the whole exchange", async (path) => {
    expect(await codeOf(guardedFetch(url(path), options({ allowHttp: true, timeoutMs: 80 })))).toBe("timeout");
  });

  test("a resolver that hangs reaches the time limit too", async () => {
    const lookup = () => new Promise<never>(() => {});
    expect(await codeOf(guardedFetch(url("/"), options({ allowHttp: true, timeoutMs: 50, lookup })))).toBe("timeout");
  });

  test("the caller may abort first, with its own reason", async () => {
    const stop = new AbortController();
    const waiting = guardedFetch(url("/hang"), options({ allowHttp: true, signal: stop.signal }));
    stop.abort(new Error("shutting down"));
    expect(waiting).rejects.toThrow("shutting down");
  });
});

test("after a dead address the client tries the next one; a refused port is a connection error", async () => {
  const lookup = async () => [{ address: "127.0.0.1" }, { address: "::1" }];
  const six = Bun.serve({ hostname: "::1", port: 0, fetch: handler });
  const answer = await guardedFetch(`http://hooks.example:${six.port}/`, options({ allowHttp: true, lookup }));
  expect(answer.address).toBe("::1");
  expect((await guardedFetch(`http://[::1]:${six.port}/`, options({ allowHttp: true }))).status).toBe(200);
  const { port } = six;
  await six.stop(true);
  expect(await codeOf(guardedFetch(`http://hooks.example:${port}/`, options({ allowHttp: true, lookup })))).toBe(
    "connection",
  );
});

test("both failpoints are passed, in order", async () => {
  const seen: string[] = [];
  failpoints.hit = (at) => seen.push(at);
  await guardedFetch(`http://hooks.example:${plain.port}/?status=500`, options({ allowHttp: true }));
  expect(seen).toEqual(["http.before_send", "http.after_send"]);
});

test("a CA file is read once and must hold a certificate", () => {
  expect(readCaFile("")).toBeUndefined();
  expect(readCaFile(join(TLS, "ca.pem"))).toBe(ca);
  expect(() => readCaFile(join(TLS, "server.key"))).toThrow("no PEM certificate");
  expect(() => readCaFile(join(TLS, "none.pem"))).toThrow("ENOENT");
});

test("an error contains nothing of the query at any depth", async () => {
  const closed = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: handler });
  const refused = `http://127.0.0.1:${closed.port}/x?signature=MARKED-signature`;
  await closed.stop(true);
  const request = { policy, timeoutMs: 60_000, allowHttp: true };
  const thrown = [
    await guardedFetch(refused, request).catch((error: unknown) => error),
    await guardedOpen(refused, { ...request, idleMs: 1000 }).catch((error: unknown) => error),
  ];
  for (const error of thrown) {
    expect(error).toBeInstanceOf(DialError);
    expect((error as DialError).code).toBe("connection");
    for (let at: unknown = error; at instanceof Error; at = at.cause)
      expect(`${Bun.inspect(at)} ${JSON.stringify({ ...at })} ${at.stack}`).not.toContain("MARKED");
  }
});

test("a URL with an address is judged once, and again once the address is one of this machine", () => {
  const own = new Set<string>();
  const targets: Targets = new Map();
  const listed = { ...networkPolicy({ allow_private: false, allow: ["203.0.114.7"] }), own: () => own };
  const target = (url: string, by = listed) => targetOf(url, { policy: by, keepAlive: true, targets });
  const first = target("https://203.0.114.7/hook");
  own.add("203.0.114.7");
  expect(target("https://203.0.114.7/hook")).toBe(first); // the operator has listed it
  const other = target("https://203.0.114.8/hook");
  expect(target("https://203.0.114.8/hook")).toBe(other);
  own.add("203.0.114.8");
  expect(() => target("https://203.0.114.8/hook")).toThrow("an address of this machine");
});
