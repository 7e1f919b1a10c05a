// tier: all (starts the executable and Chromium, 20 s)
/** The official SDKs in a page of another origin: Chromium asks the server which of their headers it may send. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { CHROMIUM, openPage } from "../browser.ts";
import { startServing } from "../serving/served.ts";

describe.skipIf(CHROMIUM === null)("a page of another origin", () => {
  let server: Awaited<ReturnType<typeof startServing>>;
  let site: ReturnType<typeof Bun.serve>;
  beforeAll(async () => {
    server = await startServing({ settings: { VERK_HTTP__CORS_ORIGINS: "localhost" } });
    await server.deploy({ model: "verk-tiny", name: "demo" });
    const built = await Bun.build({ entrypoints: [join(import.meta.dir, "sdk_page.ts")], target: "browser" });
    const script = await built.outputs[0]?.text();
    site = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: ({ url }) =>
        url.endsWith(".js")
          ? new Response(script, { headers: { "content-type": "text/javascript" } })
          : new Response('<script type="module" src="/page.js"></script>', {
              headers: { "content-type": "text/html" },
            }),
    });
  }, 120_000);
  afterAll(async () => {
    await site?.stop(true);
    await server?.stop();
  });

  test("talks to the server with the SDKs of OpenAI and Anthropic", async () => {
    const page = await openPage(site.url.href);
    try {
      const said = await page.run<unknown[]>(`(async () => {
        while (!window.ask) await new Promise((done) => requestAnimationFrame(done));
        return await window.ask(${JSON.stringify(server.url)}, ${JSON.stringify(server.key)}).catch((error) => [String(error)]);
      })()`);
      expect(said, page.complaints.join("\n")).toEqual(["12", "12", "12", "string", "12", "demo", 0]);
    } finally {
      await page.close();
    }
  }, 120_000);
});
