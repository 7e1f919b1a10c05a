// tier: all (whole paths on the executable)
/** Images by address in chat, from sources that are hostile: redirects, bombs, endless and slow bodies, odd data: URLs. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import sharp from "sharp";
import { until } from "../harness.ts";
import { makePicture } from "../projectors.ts";
import { startServing } from "../serving/served.ts";

setDefaultTimeout(180_000);
const AT = "/messages/0/content/1/image_url/url";
const MIB = 2 ** 20;
let server: Awaited<ReturnType<typeof startServing>>;
let sources: ReturnType<typeof Bun.serve>;
let outside: ReturnType<typeof Bun.serve>;
const reached: string[] = [];
let dripping = 0;

const picture = (width: number, height: number, seed = 1) =>
  sharp(makePicture(width, height, seed).pixels, { raw: { width, height, channels: 3 } });

beforeAll(async () => {
  const good = await picture(90, 60).png().toBuffer();
  const answers: Record<string, () => Response> = {
    "/good": () => new Response(new Uint8Array(good)),
    "/to_good": () => Response.redirect("/good", 302),
    "/loop": () => Response.redirect("/loop", 302),
    "/to_metadata": () => Response.redirect("http://169.254.169.254/latest/meta-data/", 302),
    "/to_outside": () => Response.redirect(`http://127.0.0.2:${outside.port}/secret`, 307),
    "/to_file": () => new Response(null, { status: 302, headers: { location: "file:///etc/passwd" } }),
    "/to_nowhere": () => new Response(null, { status: 302 }),
    "/missing": () => new Response("none", { status: 404 }),
    "/empty": () => new Response(""),
    "/page": () => new Response("<html>", { headers: { "content-type": "image/png" } }),
    "/endless": () => new Response(endless()),
    "/drip": () => new Response(drip()),
    "/bomb": () => new Response(bombOf(good)),
  };
  sources = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: (request) => answers[new URL(request.url).pathname]?.() ?? new Response("none", { status: 404 }),
  });
  outside = Bun.serve({
    hostname: "127.0.0.2",
    port: 0,
    fetch(request) {
      reached.push(request.url);
      return new Response(new Uint8Array(good));
    },
  });
  server = await startServing({
    models: { sees: { arch: "llama", type: "F32", context: 1024 } },
    projectors: { sees: { kind: "mlp", outputs: 64, hasClass: true } },
    settings: { VERK_NETWORK__ALLOW: "127.0.0.1", VERK_WORKERS__SILENCE_MS: "600000" },
  });
  await server.deploy({ model: "sees", name: "sees", parallel: 4, context_length: 1024 });
});
afterAll(async () => {
  await sources?.stop(true);
  await outside?.stop(true);
  await server?.stop();
});

/** More than any limit, as fast as it is read. */
function endless() {
  const piece = new Uint8Array(MIB);
  return new ReadableStream({ pull: (controller) => controller.enqueue(piece) });
}

/** A byte now and then: the connection is never idle. */
function drip() {
  let timer: Timer;
  dripping++;
  return new ReadableStream({
    start(controller) {
      timer = setInterval(() => controller.enqueue(Uint8Array.of(0x89)), 50);
    },
    cancel() {
      dripping--;
      clearInterval(timer);
    },
  });
}

function bombOf(good: Buffer): Uint8Array<ArrayBuffer> {
  const bomb = Uint8Array.from(good);
  const view = new DataView(bomb.buffer);
  view.setUint32(16, 60_000);
  view.setUint32(20, 60_000);
  view.setUint32(29, Number(Bun.hash.crc32(bomb.subarray(12, 29))));
  return bomb;
}

const messages = (...urls: string[]) => {
  const images = urls.map((url) => ({ type: "image_url", image_url: { url } }));
  return [{ role: "user", content: [{ type: "text", text: "What is it?" }, ...images] }];
};
const ask = (...urls: string[]) =>
  server.call("POST", "/v1/chat/completions", { model: "sees", messages: messages(...urls), max_tokens: 4 });
/** 502: the source is at fault, and not the request. */
const isRefusal = (status: number) => (status >= 400 && status < 500) || status === 502;
const at = (path: string) => `http://127.0.0.1:${sources.port}${path}`;
const memoryOf = (field: string) =>
  Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))?.[1]) /
  1_024;

describe("an image by its address", () => {
  test("is read, also behind a redirect", async () => {
    for (const path of ["/good", "/to_good"]) expect((await ask(at(path))).status).toBe(200);
  });

  test.each([
    ["/loop", "redirects"],
    ["/to_metadata", "not allowed"],
    ["/to_outside", "not allowed"],
    ["/to_file", ""],
    ["/to_nowhere", "no valid location"],
    ["/missing", "status 404"],
    ["/empty", "empty"],
    ["/page", ""],
    ["/endless", "larger than"],
    ["/bomb", ""],
  ])("%s is refused at its field", async (path, message) => {
    const { status, body } = await ask(at(path));
    expect([isRefusal(status), body.error?.param]).toEqual([true, AT]);
    expect(body.error.message).toContain(message);
    expect(reached).toEqual([]);
  });

  test("is refused with an address that is none of the allowed", async () => {
    const port = outside.port;
    for (const url of [
      ...[
        `http://127.0.0.2:${port}/`,
        `http://localhost:${port}/`,
        `http://[::1]:${port}/`,
        `http://0x7f000002:${port}/`,
      ],
      ...[`http://2130706434:${port}/`, `http://127.2:${port}/`, `http://[::ffff:127.0.0.2]:${port}/`],
      ...[
        "file:///etc/passwd",
        "ftp://127.0.0.1/a",
        "gopher://127.0.0.1/",
        "javascript:1",
        "//127.0.0.1/a",
        "",
        "a.png",
      ],
      ...["http://", "http://127.0.0.1:0/", "http://user:pw@169.254.169.254/", `http://127.0.0.1:${server.pid}/`],
    ]) {
      const { status, body } = await ask(url);
      expect([url, isRefusal(status)]).toEqual([url, true]);
      expect(body.error.message.length).toBeGreaterThan(5);
    }
    expect(reached).toEqual([]);
  });
});

test("data: URLs in odd forms are refused, and none is a path around the decoder", async () => {
  const rgb = Buffer.alloc(12).toString("base64");
  for (const url of [
    "data:",
    "data:,",
    "data:image/png,%89PNG",
    "data:image/png;base64",
    "data:image/png;base64,",
    `data:image/x-rgb;width=2;height=2;base64,${rgb}`, // the form that only the server sends to a replica
    `DATA:image/x-rgb;width=2;height=2;base64,${rgb}`,
    `data:image/svg+xml;base64,${Buffer.from("<svg xmlns='http://www.w3.org/2000/svg'/>").toString("base64")}`,
    `data:text/html;base64,${Buffer.from("<html>").toString("base64")}`,
    `data:image/png;base64,${"A".repeat(4_000_000)}`,
  ]) {
    const { status, body } = await ask(url);
    expect([url.slice(0, 50), isRefusal(status), body.error.param]).toEqual([url.slice(0, 50), true, AT]);
  }
});

test("slow sources hold no other request, and are given up in bounded time", async () => {
  const slow = [ask(...Array.from({ length: 10 }, () => at("/drip"))), ask(at("/drip")), ask(at("/drip"))];
  await until("the sources are read", () => dripping >= 3);
  expect((await ask(at("/good"))).status).toBe(200); // before a slow one has ended
  expect(dripping).toBeGreaterThan(0);
  for (const { status, body } of await Promise.all(slow)) {
    expect([status, body.error.param]).toEqual([502, AT]);
    expect(body.error.message).toContain("no complete answer within 10 seconds");
  }
  await until("no source is read any more", () => dripping === 0);
});

test("many large images at once are answered or refused, and memory is bounded", async () => {
  const large = await picture(1_800, 1_800).jpeg({ quality: 60 }).toBuffer();
  const url = `data:image/jpeg;base64,${large.toString("base64")}`;
  const before = memoryOf("VmRSS");
  const all = await Promise.all(Array.from({ length: 8 }, () => ask(url, url, url)));
  for (const { status } of all) expect([200, 400, 413, 429, 503]).toContain(status);
  expect(memoryOf("VmHWM") - before).toBeLessThan(1_500);
  expect((await ask(at("/good"))).status).toBe(200);
});
