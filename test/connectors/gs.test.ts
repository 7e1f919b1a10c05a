import { describe, expect, test } from "bun:test";
import { generateKeyPairSync, verify } from "node:crypto";
import type { Credentials } from "../../src/lib/source.ts";
import { open } from "../../src/workers/connector/gs.ts";
import { faultOf } from "./formats_kit.ts";
import { calm, expectSilence, openSource, readRows } from "./objects_kit.ts";

const at = (source_uri: string, credentials: Credentials) =>
  openSource({ open, source: { source_type: "gs", source_uri }, credentials });

const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();

/** Google's token service, which checks the signature, and a bucket that requires the token. */
function fakeGoogle() {
  const seen = { tokens: 0, paths: [] as string[] };
  const rows = '{"a":1}\n{"a":2}\n';
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const { pathname, searchParams } = new URL(request.url);
      if (pathname === "/token") {
        const form = new URLSearchParams(await request.text());
        const [head = "", claims = "", signature = ""] = form.get("assertion")?.split(".") ?? [];
        const right = verify(
          "RSA-SHA256",
          Buffer.from(`${head}.${claims}`),
          publicKey,
          Buffer.from(signature, "base64url"),
        );
        const { iss, scope, aud, exp } = JSON.parse(Buffer.from(claims, "base64url").toString());
        const fits =
          iss === "robot@verk.test" &&
          scope.endsWith("devstorage.read_only") &&
          aud === request.url &&
          exp > Date.now() / 1000;
        if (!right || !fits) return Response.json({ error: "invalid_grant" }, { status: 400 });
        return Response.json({ access_token: `MARKED-access-${++seen.tokens}`, expires_in: 3600 });
      }
      seen.paths.push(pathname);
      if (!request.headers.get("authorization")?.startsWith("Bearer MARKED-access-"))
        return Response.json({ error: { code: 401, errors: [{ reason: "authError" }] } }, { status: 401 });
      if (!pathname.endsWith("/o/rows.jsonl"))
        return Response.json({ error: { errors: [{ reason: "notFound" }] } }, { status: 404 });
      if (searchParams.get("alt") !== "media")
        return Response.json({ name: "rows.jsonl", size: `${rows.length}`, generation: "7" });
      const [, from = "0", to = "0"] = /bytes=(\d+)-(\d+)/.exec(request.headers.get("range") ?? "") ?? [];
      const headers = { "content-range": `bytes ${from}-${to}/${rows.length}`, "x-goog-generation": "7" };
      return new Response(rows.slice(Number(from), Number(to) + 1), { status: 206, headers });
    },
  });
  const origin = `http://127.0.0.1:${server.port}`;
  const account = {
    type: "service_account",
    client_email: "robot@verk.test",
    private_key: pem,
    token_uri: `${origin}/token`,
  };
  return {
    seen,
    account,
    uri: `gs://bucket/rows.jsonl?endpoint=${origin}`,
    [Symbol.dispose]: () => void server.stop(true),
  };
}

describe("gs with a service account", () => {
  test("signs for a token once and reads with it, for every form of the key file", async () => {
    using google = fakeGoogle();
    const { account, uri } = google;
    for (const credentials of [account, { service_account: account }, { service_account: JSON.stringify(account) }]) {
      const before = google.seen.tokens;
      const connector = at(uri, credentials as Credentials);
      await connector.test(calm());
      expect(await readRows(connector)).toEqual(['{"a":1}', '{"a":2}']);
      expect(google.seen.tokens).toBe(before + 1);
    }
  });

  test("that is unknown, or an expired access token, is refused without being repeated", async () => {
    using google = fakeGoogle();
    const other = generateKeyPairSync("rsa", { modulusLength: 2048 })
      .privateKey.export({ type: "pkcs8", format: "pem" })
      .toString();
    const cases: Credentials[] = [
      { ...google.account, private_key: other },
      { ...google.account, private_key: "MARKED no key" },
      { service_account: "{MARKED" },
      { access_token: "MARKED-over" },
      {},
    ];
    for (const credentials of cases) {
      const fault = await faultOf(Promise.resolve().then(() => at(google.uri, credentials).test(calm())));
      expect(["unauthorized", "invalid_source"]).toContain(fault.code);
      expect(fault.param).toStartWith("/credentials");
      expectSilence(fault, ["MARKED", other.slice(40, 100), pem.slice(40, 100)]);
    }
  });

  test("connects only to allowed addresses, also for its token", async () => {
    using google = fakeGoogle();
    const elsewhere = { ...google.account, token_uri: "http://169.254.169.254/token" };
    const fault = await faultOf(at(google.uri, elsewhere).test(calm()));
    expect(fault.code).toBe("address_refused");
    expect(google.seen.paths).toEqual([]);
  });
});

/** The whole answers of a bucket, by the path and query of the request. */
function fakeBucket(answer: (url: URL, request: Request) => Response | object) {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      const given = answer(new URL(request.url), request);
      return given instanceof Response ? given : Response.json(given);
    },
  });
  const uri = (path: string) => `gs://bucket/${path}?endpoint=http://127.0.0.1:${server.port}`;
  return { at: (path: string) => at(uri(path), {}), [Symbol.dispose]: () => void server.stop(true) };
}

describe("gs, against a fake", () => {
  const row = (a: number) => `{"a":${a}}\n`;
  const served = (content: string, generation = "7") =>
    new Response(content, {
      status: 206,
      headers: { "content-range": `bytes 0-${content.length - 1}/${content.length}`, "x-goog-generation": generation },
    });

  test("all pages of a prefix are listed, sizes and generations as numbers or texts", async () => {
    const pages: string[] = [];
    using bucket = fakeBucket((url) => {
      const key = decodeURIComponent(url.pathname.split("/o/")[1] ?? "");
      if (url.searchParams.get("alt") === "media") return served(row(key === "x/b 1.jsonl" ? 2 : 1));
      if (key !== "") return Response.json({}, { status: 404 });
      pages.push(`${url.searchParams.get("prefix")} ${url.searchParams.get("pageToken")}`);
      return url.searchParams.has("pageToken")
        ? { items: [{ name: "x/b 1.jsonl", size: 8, generation: 7 }] }
        : { items: [{ name: "x/a.jsonl", size: "8", generation: "7" }], nextPageToken: "t 2" };
    });
    expect(await readRows(bucket.at("x/"))).toEqual(['{"a":1}', '{"a":2}']);
    expect(pages).toEqual(["x/ null", "x/ t 2"]);
  });

  const ABOUT = { name: "rows.jsonl", size: 8, generation: "7" };
  test.each<[string, (isContent: boolean) => Response | object, RegExp]>([
    [
      "is no store of Google",
      () => new Response("<html>"),
      /^unreachable: .*does not answer like Google Cloud Storage/,
    ],
    ["has no size that is whole", () => ({ ...ABOUT, size: "1.5" }), /^unreachable/],
    ["has another version", (isContent) => (isContent ? served(row(1), "8") : ABOUT), /^broken: .*changed while/],
    [
      "refuses the content",
      (isContent) =>
        isContent ? Response.json({ error: { errors: [{ reason: "quotaExceeded" }] } }, { status: 400 }) : ABOUT,
      /^invalid_source: .*400 quotaExceeded/,
    ],
  ])("a bucket that %s", async (_, answer, fault) => {
    using bucket = fakeBucket((url) => answer(url.searchParams.get("alt") === "media"));
    const { code, message } = await faultOf(bucket.at("rows.jsonl").test(calm()));
    expect(`${code}: ${message}`).toMatch(fault);
  });
});
