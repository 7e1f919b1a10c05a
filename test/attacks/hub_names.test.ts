import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { chooseFiles } from "../../src/resources/serving/models/hub/choose.ts";
import { HubError } from "../../src/resources/serving/models/hub/hub.ts";
import { pullAll } from "../../src/resources/serving/models/hub/pull.ts";
import { createDialer } from "../../src/workers/connector/dialer.ts";
import * as hf from "../../src/workers/connector/hf.ts";
import { LIMITS, NOTHING_ALLOWED, quiet } from "../connectors/sql_kit.ts";
import { startFakeHub } from "../fake_hub.ts";
import { manyApps, type TestApp } from "../harness.ts";

const { open, closeAll } = manyApps();
let app: TestApp;
let hub: ReturnType<typeof startFakeHub>;
beforeAll(() => {
  hub = startFakeHub({});
  app = open({ flags: { "hub.endpoint": hub.url, "network.allow": ["127.0.0.1"], "http.rate_limit_per_second": 0 } });
});
afterAll(async () => {
  hub.stop();
  await closeAll();
});

/** Names that would be another path of the hub, another host, or a file of this machine. */
const NAMES = [
  ..."../../etc/passwd acme/../../x /etc/passwd acme acme/ /acme acme//x acme/x/y acme/..%2f..%2fx acme/x?y=1".split(
    " ",
  ),
  ..."acme/x#y acme/x@y https://evil.example/x //evil.example/x acme/x:../y acme/x:/y acme/x:y/../z .acme/x acme/.x".split(
    " ",
  ),
  ...[
    "acme/x y",
    "acme/x\u0000",
    "acme/x\r\nHost: evil",
    "acme\\x",
    "ａcme/x",
    `acme/${"x".repeat(97)}`,
    "acme/x:",
    ":x",
  ],
];
const FILES = [
  "../x.gguf",
  "/etc/x.gguf",
  "a/../../x.gguf",
  ".hidden.gguf",
  "a\\b.gguf",
  "a\u0000.gguf",
  "a/./b.gguf",
  `${"a/".repeat(6)}x.gguf`,
];

describe("a name of the hub that leads to another place", () => {
  test.each(NAMES.map((name) => [name]))("%j is not pulled, and the hub gets no request", async (name) => {
    const { status } = await app.call("POST", "/v1/models/pull", { name });
    expect([404, 422]).toContain(status);
    expect(hub.requests).toEqual([]);
  });

  test("a usual name is requested, so the refusal above is caused by the name", async () => {
    const { status } = await app.call("POST", "/v1/models/pull", { name: "acme/x" });
    await pullAll(app.ctx, new AbortController().signal);
    expect([status, hub.requests.splice(0).length]).toEqual([202, 1]);
  });

  test.each(NAMES.filter((name) => !/^acme$|^acme\/x$/.test(name)).map((name) => [name]))(
    "%j is refused as a dataset too",
    async (name) => {
      const dialer = createDialer(NOTHING_ALLOWED, { connectMs: 1_000 });
      const source = { source_type: "hf" as const, hub_dataset: name };
      const opened = async () =>
        hf.open({ source, credentials: {}, dialer, limits: LIMITS, hubEndpoint: hub.url }).test(quiet());
      expect(["invalid_source", "address_refused"]).toContain(await opened().catch((error) => error.code));
      expect(hub.requests).toEqual([]);
    },
  );
});

describe("a file of a repository whose name leads out of its folder", () => {
  test.each(FILES.map((path) => [path]))("%j is not chosen", (path) => {
    expect(() => chooseFiles("acme/x", [{ path, size: 1, sha256: null }], undefined)).toThrow(HubError);
  });

  test("is skipped for a file with a safe name, and nothing is written beside the folder of models", () => {
    const good = { path: "ok.gguf", size: 1, sha256: null };
    const files = [...FILES.map((path) => ({ path, size: 0, sha256: null })), good];
    expect(chooseFiles("acme/x", files, undefined)).toMatchObject({ kind: "file", files: [good] });
    expect(readdirSync(join(app.dir)).filter((name) => name.endsWith(".gguf"))).toEqual([]);
  });
});
