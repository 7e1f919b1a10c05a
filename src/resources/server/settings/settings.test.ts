import { afterEach, expect, test } from "bun:test";
import { manyApps } from "../../../../test/harness.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

test("an admin key reads the settings in force with meaning and source; secrets are hidden", async () => {
  const app = open({ flags: { "http.rate_limit_burst": 77, "hub.token": "hf_secret" } });
  const { status, body } = await app.call("GET", "/v1/settings", undefined, { key: app.adminKey });
  expect(status).toBe(200);
  const byName = new Map(body.data.map((each: { name: string }) => [each.name, each]));
  expect(byName.get("http.rate_limit_burst")).toEqual({
    object: "setting",
    name: "http.rate_limit_burst",
    value: 77,
    default: 2000,
    is_default: false,
    meaning: "Requests one key may send at once; 0 = off.",
    source: "the command line",
  });
  expect(byName.get("audit.retention_days")).toMatchObject({ is_default: true, source: "default" });
  expect(byName.get("hub.token")).toMatchObject({ value: "[redacted]", default: "", source: "the command line" });
  expect(JSON.stringify(body)).not.toContain("hf_secret");
});

test("a key without the scope admin is refused", async () => {
  const app = open();
  expect((await app.call("GET", "/v1/settings")).status).toBe(403);
});
