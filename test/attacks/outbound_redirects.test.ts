import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { get } from "../../src/resources/serving/models/hub/hub.ts";
import { createDialer } from "../../src/workers/connector/dialer.ts";
import * as hf from "../../src/workers/connector/hf.ts";
import { LIMITS, quiet } from "../connectors/sql_kit.ts";
import { type DetectingApp, manyDetecting } from "../detection_kit.ts";
import { type Listener, listen, NO_CONTENT } from "../fault/ssrf_listener.ts";
import { dialWith, lookup, recordDials } from "./outbound_kit.ts";

const CODES = [301, 302, 303, 307, 308] as const;
const { open, closeAll } = manyDetecting();
let app: DetectingApp;
let dials: ReturnType<typeof recordDials>;
let server: Bun.Server<undefined>;
let canary: Listener;
let targets: string[];

beforeAll(async () => {
  canary = await listen((socket) => socket.end(NO_CONTENT), { host: "127.0.0.2", plain: true });
  dials = recordDials();
  server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      const { pathname, searchParams } = new URL(request.url);
      const to = pathname.startsWith("/api/") || pathname.startsWith("/datasets/") ? aim.to : searchParams.get("to");
      return new Response(null, {
        status: Number(searchParams.get("code") ?? aim.code),
        headers: { location: to ?? "" },
      });
    },
  });
  app = open({
    dial: dialWith,
    flags: { "network.allow": ["127.0.0.1"], "http.rate_limit_per_second": 0, "hub.endpoint": server.url.origin },
  });
  const port = canary.port;
  targets = [
    ...[
      `http://127.0.0.2:${port}/`,
      `https://127.0.0.2:${port}/`,
      `//127.0.0.2:${port}/x`,
      `http://127.0.0.3:${port}/`,
    ],
    ...[
      "http://localhost/",
      "http://[::1]/",
      "http://0.0.0.0/",
      "http://2130706434/",
      "http://0x7f000002/",
      "http://127.2/",
    ],
    ...["http://169.254.169.254/latest/meta-data/", "http://metadata.google.internal/", "http://[fd00:ec2::254]/"],
    ...[
      "http://10.0.0.1/",
      "http://192.168.1.1/admin",
      "http://172.16.0.1:2375/info",
      "http://100.64.0.1/",
      "http://[fe80::1]/",
    ],
    ...["file:///etc/passwd", "gopher://127.0.0.2:6379/_INFO", "ftp://127.0.0.2/", "data:image/png;base64,AA"],
    ...["http://ten.attack.example/", "http://metadata.attack.example/", "http://u:p@127.0.0.2/"],
  ];
});
afterAll(async () => {
  dials.stop();
  canary.stop();
  await server.stop(true);
  await closeAll();
});
/** Target of redirects of the hub, whose URLs cannot carry it. */
const aim: { code: number; to: string } = { code: 302, to: "" };

/** Only the redirecting server was connected to, and the canary received nothing. */
function unharmed() {
  expect(new Set(dials.hosts)).toEqual(new Set(["127.0.0.1"]));
  expect(canary.connections).toBe(0);
  dials.hosts.splice(0);
}

test("the list has 25 targets", () => expect(new Set(targets).size).toBe(25));

describe.each(CODES)("a redirect with %d to 25 places inside", (code) => {
  test("from an image's address reaches none of the targets", async () => {
    for (const to of targets) {
      const url = `${server.url.origin}/?code=${code}&to=${encodeURIComponent(to)}`;
      const { status, body } = await app.call("POST", "/api/detect/url", { url });
      expect([to, status, body.code]).toEqual([to, 400, "URL_NOT_ALLOWED"]);
    }
    unharmed();
  });

  test("from the hub reaches none of the targets, and carries no token", async () => {
    for (const to of targets) {
      const url = `${server.url.origin}/m?code=${code}&to=${encodeURIComponent(to)}`;
      const answer = get(app.ctx, url, { token: "hf_secret", timeoutMs: 60_000, maxBytes: 1_000 });
      const said = await answer.then(
        () => "answered",
        (error: Error) => error.message,
      );
      expect([to, /not allowed/.test(said)]).toEqual([to, true]);
    }
    unharmed();
  });

  test("from a dataset's hub reaches none of the targets", async () => {
    const dialer = createDialer(
      { allow_private: false, allow: ["127.0.0.1"], ca_file: "" },
      { connectMs: 60_000, lookup },
    );
    for (const to of targets) {
      Object.assign(aim, { code, to });
      const source = { source_type: "hf" as const, hub_dataset: "a/b" };
      const opening = { source, credentials: { token: "t" }, dialer, limits: LIMITS, hubEndpoint: server.url.origin };
      const said = await hf
        .open(opening)
        .test(quiet())
        .then(
          () => "answered",
          (error) => String(error.code),
        );
      expect([to, said]).not.toEqual([to, "answered"]);
    }
    unharmed();
  });
});

test("a loop of redirects ends after three, each with a new connection", async () => {
  const url = `${server.url.origin}/?code=302&to=`;
  const loop = `${url}${encodeURIComponent("/?code=302&to=/")}`;
  const { body } = await app.call("POST", "/api/detect/url", { url: loop });
  expect(body.code).toBe("FETCH_FAILED");
  expect(dials.hosts.splice(0).length).toBeLessThanOrEqual(4);
});

test("if the operator allows the canary's address, the same redirect reaches it, so the attack is real", async () => {
  const bare = open({ dial: dialWith, flags: { "network.allow": ["127.0.0.1", "127.0.0.2"] } });
  const url = `${server.url.origin}/?code=302&to=${encodeURIComponent(targets[0]!)}`;
  await bare.call("POST", "/api/detect/url", { url });
  expect(dials.hosts.splice(0)).toEqual(["127.0.0.1", "127.0.0.2"]);
});
