import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { signedQuery } from "../../src/resources/data/signed_urls/signed_url.ts";
import { fakeClock, manyApps, type TestApp } from "../harness.ts";
import { readyModel } from "../meta/journey_models.ts";

setDefaultTimeout(60_000);
const { open, closeAll } = manyApps();
const clock = fakeClock();
let app: TestApp;
let foreign: string;
let saved: Promise<{ id: string }> | undefined;
beforeAll(async () => {
  app = open({ clock, flags: { "http.rate_limit_per_second": 0 } });
  await app.call("POST", "/v1/volumes", { name: "lab" });
  await app.call("PUT", "/v1/volumes/lab/files/kept.bin", undefined, { raw: "kept" });
  foreign = (await app.call("GET", "/v1/api_keys", undefined, { key: app.keyB })).body.data[0].id;
});
afterAll(closeAll);

type Kind = { method: "GET" | "PUT"; make: (key?: string) => Promise<string> };
const post = async (path: string, json: object, key?: string) =>
  (await app.call("POST", path, json, key === undefined ? {} : { key })).body;
const KINDS: Record<string, Kind> = {
  "an upload": {
    method: "PUT",
    make: async (key) => (await post("/v1/volumes/lab/upload-url", { path: "a" }, key)).url,
  },
  "a part of one": {
    method: "PUT",
    make: async (key) => (await post("/v1/volumes/lab/upload-url", { path: "a", parts: 2 }, key)).parts[0].url,
  },
  "a download": {
    method: "GET",
    make: async (key) => (await post("/v1/volumes/lab/download-url", { path: "kept.bin" }, key)).url,
  },
  "a model to save": {
    method: "GET",
    async make(key) {
      saved ??= readyModel(app);
      const { id } = await saved;
      return (await app.call("GET", `/v1/models/${id}/download`, undefined, key === undefined ? {} : { key })).body.url;
    },
  },
  "a model's file": {
    method: "PUT",
    async make(key) {
      const { id } = await post("/v1/models", { name: `m${crypto.randomUUID()}` }, key);
      return (await post(`/v1/models/${id}/presigned-upload`, { files: [{ path: "m.gguf" }] }, key)).files[0].url;
    },
  },
};

const at = (url: string) => url.replace(/^https?:\/\/[^/]+/, "");
async function use(kind: Kind, url: string, method: string = kind.method) {
  const options = method === "GET" ? { key: null } : { key: null, raw: "x" };
  const { status, body } = await app.call(method, at(url), undefined, options);
  return { status, code: body.error?.code ?? null };
}

const inQuery = (name: string, change: (value: string) => string) => (url: string) =>
  url.replace(new RegExp(`${name}=([^&]*)`), (_, value: string) => `${name}=${change(value)}`);
const without = (name: string) => (url: string) =>
  url.replace(new RegExp(`[?&]${name}=[^&]*`), "").replace(/(\/[^?&]*)&/, "$1?");
const other = (char: string) => (char === "A" ? "B" : "A");

const CHANGES: Record<string, (url: string) => string> = {
  "no query": (url) => url.split("?")[0]!,
  "no key": without("key"),
  "no expiry": without("expires"),
  "no signature": without("signature"),
  "an empty signature": inQuery("signature", () => ""),
  "another first character": inQuery("signature", (text) => other(text[0]!) + text.slice(1)),
  "another last character": inQuery("signature", (text) => text.slice(0, -1) + other(text.at(-1)!)),
  "a shorter signature": inQuery("signature", (text) => text.slice(0, -1)),
  "a longer signature": inQuery("signature", (text) => `${text}A`),
  "a padded signature": inQuery("signature", (text) => `${text}=`),
  "a signature in capitals": inQuery("signature", (text) => text.toUpperCase()),
  "a signature of zeros": inQuery("signature", (text) => "A".repeat(text.length)),
  "a later expiry": inQuery("expires", (text) => String(Number(text) + 1)),
  "an earlier expiry": inQuery("expires", (text) => String(Number(text) - 1)),
  "an expiry with a zero before it": inQuery("expires", (text) => `0${text}`),
  "an expiry with a plus": inQuery("expires", (text) => `%2B${text}`),
  "an expiry with a blank": inQuery("expires", (text) => `%20${text}`),
  "an expiry with a point": inQuery("expires", (text) => `${text}.0`),
  "an expiry as a power": inQuery("expires", () => "1e12"),
  "an expiry without end": inQuery("expires", () => "Infinity"),
  "a negative expiry": inQuery("expires", (text) => `-${text}`),
  "an expiry in milliseconds": inQuery("expires", (text) => `${text}000`),
  "a key that is not there": inQuery("key", (text) => `${text.slice(0, -1)}${text.at(-1) === "0" ? "1" : "0"}`),
  "another workspace's key": inQuery("key", () => foreign),
  "an empty key": inQuery("key", () => ""),
  "a key that is a path": inQuery("key", () => "..%2F.."),
  "two keys": (url) => `${url}&key=${foreign}`,
  "two expiries": (url) => `${url}&expires=99999999999`,
  "two signatures": (url) => `${url}&signature=${"A".repeat(43)}`,
  "names in capitals": (url) => url.replace("key=", "KEY=").replace("signature=", "SIGNATURE="),
  "another object": (url) =>
    url.replace(/(vol|mdl)_./, (text) => `${text.slice(0, -1)}${other(text.at(-1)!).toLowerCase()}`),
  "a longer path": (url) => url.replace("?", "x?"),
  "a path with dots": (url) => url.replace(/\/([^/?]*)\?/, "/..%2f$1?"),
};

describe.each(Object.entries(KINDS))("the signed address of %s", (_name, kind) => {
  test.each(Object.entries(CHANGES))("with %s is refused", async (_what, change) => {
    const url = await kind.make();
    const changed = change(url);
    expect(changed).not.toBe(url);
    const { status } = await use(kind, changed);
    expect([400, 401, 403, 404, 422]).toContain(status); // 401: beside the address are routes that need a key
    expect((await use(kind, url)).status).toBeLessThan(300); // the change is what was refused
  });

  test("is not valid for another method, nor with the signature of another address", async () => {
    const [url, second] = [await kind.make(), await kind.make()];
    for (const method of ["GET", "PUT", "POST", "DELETE", "PATCH"].filter((each) => each !== kind.method))
      expect((await use(kind, url, method)).status).toBeGreaterThanOrEqual(400);
    const crossed = at(url).split("?")[0] + at(second).slice(at(second).indexOf("?"));
    if (crossed !== at(url) && crossed !== at(second)) expect((await use(kind, crossed)).status).toBe(403);
  });

  test("ends with its time, to the second", async () => {
    const url = await kind.make();
    const left = Number(new URL(url).searchParams.get("expires")) * 1000 - clock.now();
    clock.advance(left);
    expect(await use(kind, url)).toEqual({ status: 403, code: "invalid_signature" });
  });

  test("ends with the key that requested it: revoked or expired", async () => {
    for (const end of ["revoked", "expired"]) {
      const { id, key } = await post("/v1/api_keys", { name: "ci" });
      const url = await kind.make(key);
      if (end === "revoked") await app.call("DELETE", `/v1/api_keys/${id}`);
      else app.ctx.db.$client.query("UPDATE api_keys SET expires_at = ? WHERE id = ?").run(clock.now(), id);
      expect([end, await use(kind, url)]).toEqual([end, { status: 403, code: "invalid_signature" }]);
    }
  });

  test("is used up by the first sender", async () => {
    if (kind.method === "GET") return; // a download may be repeated until it expires
    const url = await kind.make();
    expect((await use(kind, url)).status).toBeLessThan(300);
    const again = await use(kind, url);
    const isPart = url.includes("/parts/"); // a part may be sent again until the upload is complete
    expect(again.status).toBe(isPart ? 200 : 409);
  });

  test("works with a changed expiry if the server's own key signed it, so the signature is the protection", async () => {
    const url = new URL(await kind.make());
    const expiresAtSeconds = Number(url.searchParams.get("expires")) + 3600;
    const use_ = { method: kind.method, path: url.pathname, sizeBytes: null, sha256: null };
    const grant = { keyId: url.searchParams.get("key")!, expiresAtSeconds };
    const query = signedQuery(app.ctx.secrets.derive("signed-urls"), use_, grant);
    expect((await use(kind, `${url.pathname}?${query}`)).status).toBeLessThan(300);
    const forged = signedQuery(new Uint8Array(32), use_, grant);
    expect((await use(kind, `${url.pathname}?${forged}`)).status).toBe(403);
  });
});

test("a suspended workspace invalidates its addresses", async () => {
  const { key, workspaceId } = app.keyOf("gamma", ["*"]);
  await app.call("POST", "/v1/volumes", { name: "lab" }, { key });
  const kind = KINDS["an upload"]!;
  const url = await kind.make(key);
  await app.call("POST", `/v1/workspaces/${workspaceId}/suspend`, {}, { key: app.adminKey });
  expect(await use(kind, url)).toEqual({ status: 403, code: "invalid_signature" });
});
