import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { bytesOf, type DetectingApp, detecting } from "../../../../test/detection_kit.ts";
import { until } from "../../../../test/harness.ts";
import { sha256Bytes } from "../../../platform/files.ts";
import type { Dial } from "../../../platform/network/http_client.ts";
import { fetchFile } from "./files.ts";

let app: DetectingApp;
let server: ReturnType<typeof serve>;
const image = bytesOf({ score: 0.9 });
const LARGE = 2_048;

/** `/hop/3` leads to `/hop/2` and so on to the image. */
function serve() {
  return Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 60,
    fetch(request) {
      const { pathname, searchParams } = new URL(request.url);
      const [, what, left = "0"] = pathname.split("/");
      if (what === "hop" && left !== "0") return Response.redirect(`/hop/${Number(left) - 1}`, 302);
      if (what === "to") return Response.redirect(searchParams.get("url") ?? "", 307);
      if (what === "nowhere") return new Response(null, { status: 301 });
      if (what === "large") return new Response(new Uint8Array(LARGE + 1));
      if (what === "page") return new Response("<html>", { headers: { "content-type": "image/png" } });
      if (what === "empty") return new Response(null, { status: 200 });
      if (what === "missing") return new Response("no", { status: 404 });
      return new Response(new Uint8Array(image), { headers: { "content-type": "text/plain" } });
    },
  });
}

beforeAll(() => {
  server = serve();
  app = detecting({ flags: { "network.allow": ["127.0.0.1"], "detect.max_image_bytes": LARGE } });
});
afterAll(async () => {
  await server.stop(true);
  await app.close().then(app.remove);
});

/** A path is one of the server above. */
const check = (address: string) =>
  app.call("POST", "/api/detect/url", { url: address.startsWith("/") ? server.url.origin + address : address });

describe("an image by its address", () => {
  test("is what its bytes are, whatever its server calls it", async () => {
    const { status, body } = await check("/picture");
    expect([status, body.prediction, body.imageHash]).toEqual([200, "ai", sha256Bytes(image)]);
  });

  test("up to three redirects are followed, one more is not", async () => {
    expect((await check("/hop/3")).status).toBe(200);
    const { status, body } = await check("/hop/4");
    expect([status, body.code]).toEqual([502, "FETCH_FAILED"]);
    expect(body.error).toContain("3 redirects");
  });

  test.each([
    ["an address inside", "http://10.1.2.3/a.png", 400, "URL_NOT_ALLOWED"],
    ["the clouds' metadata", "http://169.254.169.254/latest", 400, "URL_NOT_ALLOWED"],
    ["this machine by another of its names", "http://127.0.0.2/a.png", 400, "URL_NOT_ALLOWED"],
    ["another scheme", "file:///etc/passwd", 400, "URL_NOT_ALLOWED"],
    ["no address", "not an address", 400, "URL_NOT_ALLOWED"],
    ["a redirect inside", "/to?url=http://10.1.2.3/", 400, "URL_NOT_ALLOWED"],
    ["a redirect to another scheme", "/to?url=file:///etc/passwd", 400, "URL_NOT_ALLOWED"],
    ["a redirect to nowhere", "/nowhere", 502, "FETCH_FAILED"],
    ["a server that says no", "/missing", 502, "FETCH_FAILED"],
    ["a server that says nothing", "/empty", 502, "FETCH_FAILED"],
    ["nobody there", "http://127.0.0.1:1024/", 502, "FETCH_FAILED"],
    ["too much", "/large", 413, "IMAGE_TOO_LARGE"],
    ["a page that calls itself an image", "/page", 415, "UNSUPPORTED_FORMAT"],
  ])("%s", async (_name, path, status, code) => {
    expect(await check(path)).toMatchObject({ status, body: { code } });
  });

  test("one deadline for all of it", async () => {
    const stalled = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Promise<Response>(() => {}) });
    const timeouts: number[] = [];
    const dial: Dial = (url, request) => {
      timeouts.push(request.timeoutMs);
      return app.ctx.dial(url, { ...request, timeoutMs: 50 });
    };
    const fetching = fetchFile({ ...app.ctx, dial }, stalled.url.href, new AbortController().signal);
    const message = expect.stringContaining("within 10 seconds");
    await expect(fetching).rejects.toMatchObject({ code: "fetch_failed", message });
    expect(timeouts).toHaveLength(1);
    expect(timeouts[0]).toBeLessThanOrEqual(10_000);
    await stalled.stop(true);
  });

  test("each hop has what the ones before it have left of that", async () => {
    const timeouts: number[] = [];
    const dial: Dial = async (_url, { timeoutMs }) => {
      timeouts.push(timeoutMs);
      const begun = performance.now();
      await until("some time to pass", () => performance.now() > begun + 2);
      const headers = new Headers({ location: "/next" });
      return { status: 302, headers, body: new Uint8Array(), truncated: false, address: "127.0.0.1" };
    };
    const fetching = fetchFile({ ...app.ctx, dial }, "https://example.com/", new AbortController().signal);
    await expect(fetching).rejects.toMatchObject({ code: "fetch_failed" });
    expect(timeouts).toHaveLength(4);
    expect(timeouts).toEqual([...new Set(timeouts)].sort((a, b) => b - a));
  });
});
