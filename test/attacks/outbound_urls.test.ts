import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { judgeUrl, PUBLIC_ONLY } from "../../src/platform/network/address.ts";
import { requireReachable } from "../../src/resources/watching/webhooks/guard.ts";
import { type DetectingApp, manyDetecting } from "../detection_kit.ts";
import { PATH as TRACKER } from "../tracker_kit.ts";
import { FORMS, NAMES, plain } from "./outbound_forms.ts";
import { dialWith, lookup, NO_WALL, recordDials } from "./outbound_kit.ts";

const { open, closeAll } = manyDetecting();
let app: DetectingApp;
let bare: DetectingApp;
let dials: ReturnType<typeof recordDials>;
beforeAll(() => {
  dials = recordDials();
  app = open({ dial: dialWith, flags: UNLIMITED });
  bare = open({ dial: dialWith, flags: { ...UNLIMITED, ...NO_WALL } });
});
afterAll(async () => {
  dials.stop();
  await closeAll();
});
const UNLIMITED = { "http.rate_limit_per_second": 0 };

/** Every field of the API that takes an address: what a form comes to there. */
const SINKS: Record<string, (on: DetectingApp, url: string) => Promise<{ status: number; code: unknown }>> = {
  "POST /v1/webhooks": (on, url) => sent(on, "POST", "/v1/webhooks", { url }),
  "PUT /v1/config (webhookUrl)": (on, url) => sent(on, "PUT", "/v1/config", { webhookUrl: url }),
  "POST /api/detect/url": (on, url) => sent(on, "POST", "/api/detect/url", { url }),
  "POST /v1/agents (server_url)": (on, url) => sent(on, "POST", "/v1/agents", agentWith(url)),
  "PUT tracker": (on, url) => sent(on, "PUT", TRACKER, { type: "mlflow", base_url: url, project: "p" }),
};
const agentWith = (url: string) => ({
  name: "helper",
  deployment: "none",
  tools: [{ type: "mcp", server_label: "a", server_url: url }],
});
async function sent(on: DetectingApp, method: string, path: string, json: unknown) {
  const { status, body } = await on.call(method, path, json);
  return { status, code: body.code ?? body.error?.code ?? null };
}

test("the list has at least 250 forms, and the guard refuses each over https and http", () => {
  expect(FORMS.length).toBeGreaterThanOrEqual(250);
  const through = [...FORMS, ...FORMS.map(plain)].filter(
    (url) => judgeUrl(url, PUBLIC_ONLY, { allowHttp: true }).allowed,
  );
  expect(through).toEqual([]);
});

describe("no form gets through", () => {
  test.each(Object.keys(SINKS))("%s", async (name) => {
    const before = dials.hosts.length;
    const got = new Map<string, string>();
    for (const form of [...FORMS, ...FORMS.filter((_, i) => i % 3 === 0).map(plain)]) {
      const { status, code } = await SINKS[name]!(app, form);
      if (status !== 400 && status !== 422) got.set(form, `${status} ${code}`);
    }
    expect([...got]).toEqual([]);
    expect(dials.hosts.slice(before)).toEqual([]);
  });
});

describe("a name of the attacker's own zone that leads inside", () => {
  const names = Object.keys(NAMES);

  test("is refused at the connection: detection, tracker, webhook", async () => {
    const before = dials.hosts.length;
    const got = new Map<string, unknown>();
    for (const name of names)
      for (const url of [`https://${name}/x`, `http://${name}:8080/x`]) {
        const detected = await SINKS["POST /api/detect/url"]!(app, url);
        if (detected.code !== "URL_NOT_ALLOWED") got.set(url, detected);
        await SINKS["PUT tracker"]!(app, url); // a name is checked when it is connected to
        const { body } = await app.call("POST", `${TRACKER}/test`, {});
        if (body.error?.code !== "refused") got.set(`tracker ${url}`, body);
        if (url.startsWith("http:")) continue;
        const hook = await requireReachable(app.ctx, url, { lookup }).catch((error) => error.code);
        if (hook !== "url_not_allowed") got.set(`webhook ${url}`, hook);
      }
    expect([...got]).toEqual([]);
    expect(dials.hosts.slice(before)).toEqual([]);
  });

  test("L3: the answer has no resolved address and no kind of range, and is the same for each of them", async () => {
    const said = new Set<string>();
    for (const name of names) {
      const { body } = await app.call("POST", "/api/detect/url", { url: `https://${name}/x` });
      said.add(`detect ${body.error.replaceAll(name, "NAME")}`);
      await SINKS["PUT tracker"]!(app, `https://${name}/`);
      const tested = await app.call("POST", `${TRACKER}/test`, {});
      said.add(`tracker ${tested.body.error.message.replaceAll(name, "NAME")}`);
      const hook = await requireReachable(app.ctx, `https://${name}/`, { lookup }).catch((error) => error.message);
      said.add(`webhook ${hook.replaceAll(name, "NAME")}`);
    }
    expect([...said].map((text) => text.split(" ")[0])).toEqual(["detect", "tracker", "webhook"]);
    for (const text of said) expect(text).toContain("NAME leads to an address that is not allowed");
  });

  test("L3: the server's log has the address, once a minute for each name", async () => {
    const name = "carrier.attack.example";
    for (let i = 0; i < 3; i++) await requireReachable(app.ctx, `https://${name}/`, { lookup }).catch(() => {});
    const lines = app.log.filter((line) => line.includes(name) && line.includes("refused to connect"));
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0]!)).toMatchObject({
      level: "warn",
      host: name,
      refused: expect.stringContaining("100.64.1.1"),
    });
  });
});

test("without the guard most forms connect, so the attacks are real", async () => {
  const before = dials.hosts.length;
  const { status } = await SINKS["POST /api/detect/url"]!(bare, "https://metadata.attack.example/");
  expect([status, dials.hosts.slice(before)]).toEqual([502, ["169.254.169.254"]]);
  for (const form of FORMS) await SINKS["POST /api/detect/url"]!(bare, form);
  expect(dials.hosts.length - before).toBeGreaterThan(180);
  expect(new Set(dials.hosts.slice(before)).size).toBeGreaterThan(60);
});
