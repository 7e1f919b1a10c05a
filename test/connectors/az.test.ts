import { describe, expect, test } from "bun:test";
import type { Credentials } from "../../src/lib/source.ts";
import { open } from "../../src/workers/connector/az.ts";
import { faultOf } from "./formats_kit.ts";
import { calm, expectSilence, openSource, readRows } from "./objects_kit.ts";

describe("az", () => {
  test.each<[string, Credentials, string, string]>([
    ["az://account", {}, "/source_uri", "az://account/container/path"],
    ["az://account/UPPER/x", {}, "/source_uri", "A container name has lower-case letters"],
    ["az://ac-count/container/x", {}, "/source_uri", "the account name must have 3 to 24 lower-case letters"],
    ["az://account/container/x", { account_key: "MARKED not base64" }, "/credentials/account_key", "not base64"],
    ["az://account/container/x", { sas_token: "sv=MARKED" }, "/credentials/sas_token", "has no `sig`"],
  ])("%s %j is refused before any connection", async (source_uri, credentials, param, message) => {
    const source = { source_type: "az" as const, source_uri };
    const fault = await faultOf(Promise.resolve().then(() => openSource({ open, source, credentials })));
    expect([fault.code, fault.param]).toEqual(["invalid_source", param]);
    expect(fault.message).toContain(message);
    expectSilence(fault, ["MARKED"]);
  });
});

/** Blobs in pages of two, with the names that Azure escapes. `answer` replaces some answers. */
function fakeAzure(
  blobs: Record<string, string>,
  answer: (request: Request) => Response | undefined = () => undefined,
) {
  const names = Object.keys(blobs).sort();
  const seen: { method: string; path: string; range: string | null; etag: string | null; version: string | null }[] =
    [];
  const shown = (name: string) => {
    const xml = name
      .replaceAll("&", "&amp;")
      .replaceAll("<", "&lt;")
      .replaceAll("ü", "&#xFC;")
      .replaceAll("'", "&#39;");
    return name.includes("\u0001") ? `<Name Encoded="true">${encodeURIComponent(name)}</Name>` : `<Name>${xml}</Name>`;
  };
  const list = (query: URLSearchParams) => {
    const mine = names.filter((name) => name.startsWith(query.get("prefix") ?? ""));
    const from = Number(query.get("marker") ?? 0);
    const items = mine
      .slice(from, from + 2)
      .map(
        (name) =>
          `<Blob>${shown(name)}<Properties><Content-Length>${blobs[name]!.length}</Content-Length><Etag>E1</Etag></Properties></Blob>`,
      );
    const next = from + 2 < mine.length ? `<NextMarker>${from + 2}</NextMarker>` : "<NextMarker />";
    return new Response(
      `<?xml version="1.0"?><EnumerationResults><Blobs>${items.join("")}</Blobs>${next}</EnumerationResults>`,
    );
  };
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      const { pathname, searchParams } = new URL(request.url);
      const { method, headers } = request;
      const path = decodeURIComponent(pathname);
      seen.push({
        method,
        path,
        range: headers.get("range"),
        etag: headers.get("if-match"),
        version: headers.get("x-ms-version"),
      });
      const other = answer(request);
      if (other) return other;
      if (searchParams.get("comp") === "list") return list(searchParams);
      const content = blobs[path.replace("/box/", "")];
      if (content === undefined)
        return new Response(null, { status: 404, headers: { "x-ms-error-code": "BlobNotFound" } });
      if (method === "HEAD")
        return new Response(null, { headers: { etag: '"E1"', "content-length": `${content.length}` } });
      const [, from = "0", to = "0"] = /^bytes=(\d+)-(\d+)$/.exec(headers.get("range") ?? "") ?? [];
      const part = content.slice(Number(from), Number(to) + 1);
      return new Response(part, { status: 206, headers: { "content-range": `bytes ${from}-${to}/${content.length}` } });
    },
  });
  const at = (path: string) => {
    const source_uri = `az://account/box/${path}?endpoint=http://127.0.0.1:${server.port}`;
    return openSource({ open, source: { source_type: "az", source_uri }, credentials: {} });
  };
  return { seen, at, [Symbol.dispose]: () => void server.stop(true) };
}

describe("az, against a fake", () => {
  const row = (a: number) => `{"a":${a}}`;

  test("one blob is read by its exact range, pinned to its version", async () => {
    using azure = fakeAzure({ "x/rows.jsonl": `${row(1)}\n${row(2)}\n` });
    expect(await readRows(azure.at("x/rows.jsonl"))).toEqual([row(1), row(2)]);
    const reads = azure.seen.filter(({ method }) => method === "GET");
    expect(reads).toEqual([
      { method: "GET", path: "/box/x/rows.jsonl", range: "bytes=0-15", etag: '"E1"', version: "2021-12-02" },
    ]);
  });

  test("all pages of a prefix are listed, and every name is read as it was written", async () => {
    const names = ["x/a.jsonl", "x/b & <c>'.jsonl", "x/d\u0001.jsonl", "x/ü.jsonl", "y/other.jsonl"];
    using azure = fakeAzure(Object.fromEntries(names.map((name, i) => [name, `${row(i)}\n`])));
    expect(await readRows(azure.at("x/"))).toEqual([row(0), row(1), row(2), row(3)]);
    expect(azure.seen.filter(({ path }) => path === "/box").length).toBe(2);
  });

  test("what is missing, refused or no Azure is told apart", async () => {
    const codeOf = async (answer?: (request: Request) => Response | undefined, path = "x/rows.jsonl") => {
      using azure = fakeAzure({ "x/rows.jsonl": row(1) }, answer);
      const { code, message } = await faultOf(azure.at(path).test(calm()));
      return `${code}: ${message}`;
    };
    expect(await codeOf(undefined, "x/none.jsonl")).toStartWith("not_found");
    const listing = (answer: () => Response) => (request: Request) => (request.method === "GET" ? answer() : undefined);
    const refused = () => new Response(null, { status: 403, headers: { "x-ms-error-code": "AuthorizationFailure" } });
    expect(await codeOf(listing(refused), "x/")).toMatch(/^unauthorized: .*\(403 AuthorizationFailure\)/);
    expect(
      await codeOf(
        listing(() => new Response("<html>")),
        "x/",
      ),
    ).toMatch(/^unreachable: .*like Azure/);
    const changed = (request: Request) => (request.method === "GET" ? new Response(null, { status: 412 }) : undefined);
    expect(await codeOf(changed)).toMatch(/^broken: .*changed while it was being read/);
    const whole = (request: Request) => (request.method === "HEAD" ? new Response(null, { status: 400 }) : undefined);
    expect(await codeOf(whole)).toStartWith("invalid_source");
  });
});
