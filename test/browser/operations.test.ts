// tier: all (every page in a browser)
/** The pages of a deployment, of regions and of usage, by mouse and by keyboard. Every stored text is markup. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { program } from "../cli.ts";
import { until } from "../harness.ts";
import { placeExecutable } from "../node_executable.ts";
import { describeWith, sshd } from "../servers/servers.ts";
import { CHROMIUM, SIZES, startDashboard } from "./kit.ts";

const MARKUP = '<img src=x onerror="window.hacked=1"><b>x</b>';
const LONG_MS = 120_000;
const [EXECUTABLE = ""] = program();

type World = Awaited<ReturnType<typeof startDashboard>>;

async function clean({ page }: World, expected = /^$/) {
  expect(await page.run<unknown>("window.hacked ?? null")).toBeNull();
  expect(await page.axe()).toEqual([]);
  for (const size of [{ width: 390, height: 844 }, SIZES.tablet, { width: 2_560, height: 1_200 }, SIZES.desktop]) {
    await page.resize(size);
    expect(await page.faults({ expected })).toEqual([]);
  }
}

/** A request of a second key, whose name is markup. */
async function chat({ server }: World, model: string, key: string) {
  const messages = [{ role: "user", content: "What is 2 + 3?" }];
  return await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model, max_tokens: 6, messages }),
  });
}

describe.skipIf(CHROMIUM === null)("deployment and usage", () => {
  let world: World;
  let id = "";
  let key = "";
  beforeAll(async () => {
    world = await startDashboard({ isAdmin: true, env: { VERK_BILLING__LOCAL_RATE_USD_PER_HOUR: "3600" } });
    const { call } = world.server;
    await until("the built-in model", async () => {
      const { body } = await call("GET", "/v1/models?registry=true");
      return body.data.some((model: { status: string }) => model.status === "ready");
    });
    key = (await call("POST", "/v1/api_keys", { name: MARKUP, scopes: ["inference"] })).body.key;
    id = (await call("POST", "/v1/deployments", { model: "verk-tiny", name: "demo", min_replicas: 1 })).body.id;
    await until("the deployment", async () => (await call("GET", `/v1/deployments/${id}`)).body.status === "serving");
  }, LONG_MS);
  afterAll(() => world?.close());

  test(
    "a new deployment and an empty period say the next step",
    async () => {
      const { page } = world;
      await page.at(`/deployments/${id}`);
      await page.waitForText("No request yet");
      await page.waitForText("at once"); // its replica
      expect(await page.has("link", "Try demo")).toBe(true);
      await clean(world);
      await page.at("/usage?measure=requests");
      await page.waitForText("Requests: nothing in this period");
      await clean(world);
    },
    LONG_MS,
  );

  test(
    "requests draw the curves, which keys read; periods, adapters and the log are one tab away",
    async () => {
      const { page } = world;
      for (let i = 0; i < 3; i++) expect((await chat(world, "demo", key)).status).toBe(200);
      expect((await chat(world, `demo:${MARKUP}`, key)).status).toBe(404);
      await page.at(`/deployments/${id}`);
      await page.waitForText("Time to the first token");
      await page.waitForText("Whole answer p50");
      await page.waitFor("six curves", () => page.run<boolean>("document.querySelectorAll('.uplot').length === 6"));
      await page.tabTo("Requests over time. Arrow keys move along the curve");
      await page.press("End");
      await page.waitFor("the spoken figures", () =>
        page.run<boolean>(
          "[...document.querySelectorAll('.chart [role=status]')].some((at) => /Answered/.test(at.textContent))",
        ),
      );
      expect(await page.run<number>("document.querySelectorAll('.chart-menu button').length")).toBe(12);
      await clean(world);
      await page.tabTo("6 h", 150); // once around the page
      await page.press("Enter");
      await page.waitFor("the period", async () => (await page.path()).includes("hours=6"));
      await page.waitForText("each point is 5 min");

      await page.click("button", "Adapters");
      await page.waitForText("No adapter fits this model");
      await clean(world);
      await page.click("button", "Requests");
      await page.waitForText("404");
      await clean(world);
      await page.click("button", "Log");
      await page.waitForText("The deployment serves");
      await page.click("searchbox", "Search");
      await page.type("WAS ANSWERED WITH");
      await page.waitFor("one line", () =>
        page.run<boolean>("document.querySelectorAll('.deployments-log > div').length === 1"),
      );
      await page.waitForText("<b>x</b>"); // the name of the adapter, as text
      await clean(world);
      await page.at(`/deployments/${id}?tab=log&level=error`);
      await page.waitForText("No line matches");
    },
    LONG_MS,
  );

  test(
    "usage is split by day, key and model, filtered, and saved as a file",
    async () => {
      const { page } = world;
      await page.at("/usage?measure=requests&by=key");
      await page.waitForText(MARKUP);
      await page.waitFor("the bars", () => page.run<boolean>("!!document.querySelector('.uplot')"));
      await clean(world);
      await page.tabTo("Requests by day. Arrow keys move along the curve");
      await page.press("End");
      await page.waitFor("the spoken figures", () =>
        page.run<boolean>("/4/.test(document.querySelector('.chart [role=status]').textContent)"),
      );
      await page.run(`{ window.saved = []; const make = URL.createObjectURL.bind(URL);
      URL.createObjectURL = (blob) => { void blob.text().then((text) => saved.push(text)); return make(blob); } }`);
      await page.click("button", "Export CSV");
      const file = await page.waitFor("the file", () => page.run<string | undefined>("window.saved[0]"));
      expect(file).toMatch(/^day,key,name,requests,/);
      expect(file.split("\r\n").find((line) => line.includes("onerror"))).toMatch(/,4,\d+,\d+,\d+,0,0,0,0$/);
      await page.click("button", "Cost");
      await page.waitForText("$");
      await page.at("/usage?measure=requests&by=model&model=none");
      await page.waitForText("Requests: nothing in this period");
      await page.tabTo("Clear filters");
      await page.press("Enter");
      await page.waitFor("the model", async () => (await page.text()).includes("verk-tiny"));
      expect(await page.path()).not.toContain("model=none");
      await clean(world);
    },
    LONG_MS,
  );

  test(
    "a page whose data fails says so and tries again",
    async () => {
      const { page } = world;
      await page.at("/deployments/dep_none");
      await page.waitForText("This does not exist, or it was deleted");
      expect(await page.has("link", "Back to the list")).toBe(true);
      await clean(world, /404/);
    },
    LONG_MS,
  );
});

describeWith("regions in the browser", sshd, (node) => {
  let world: World;
  beforeAll(async () => {
    if (CHROMIUM === null) return;
    await placeExecutable(EXECUTABLE, `${node.home}/regions`);
    world = await startDashboard({ isAdmin: true, env: { VERK_NETWORK__ALLOW: "127.0.0.1" } });
  }, LONG_MS);
  afterAll(() => world?.close());

  test.skipIf(CHROMIUM === null)(
    "the wizard tests a machine, says what is wrong, and saves what works",
    async () => {
      const { page, server } = world;
      await page.at("/regions");
      await page.waitForText("All work runs on this machine");
      await clean(world);
      await page.click("button", "Add a region");
      await page.waitFor("the form", () => page.has("textbox", "Name"));
      const fill = async (role: string, name: string, value: string) => {
        await page.click(role, name);
        await page.press("a", "ctrl");
        await page.type(value);
      };
      await fill("textbox", "Name", MARKUP);
      await fill("textbox", "Address", "127.0.0.1");
      await fill("spinbutton", "Port", "9");
      await fill("textbox", "User", node.user);
      await fill("textbox", "Directory", "regions");
      await fill("textbox", "Private key", node.privateKey);
      await fill("textbox", "Public key", node.publicKey);
      await clean(world);
      await page.click("button", "Test");
      await page.waitForText("Check that an SSH server listens at port 9", LONG_MS);
      expect(await page.run<boolean>("document.querySelector('dialog footer .primary').disabled")).toBe(true);

      await fill("spinbutton", "Port", String(node.port));
      await page.waitForText("The values have changed since the test");
      await page.tabTo("Test");
      await page.press("Enter");
      await page.waitForText("Every step succeeded", LONG_MS);
      await page.waitForText("Compare this fingerprint");
      await clean(world);
      await page.tabTo("Save");
      await page.press("Enter");
      await page.waitFor("the region", () => page.has("button", `Check ${MARKUP}`));
      const { body } = await server.call("GET", "/v1/regions");
      const { id } = body.data[1];
      await until(
        "the node",
        async () => (await server.call("GET", `/v1/regions/${id}`)).body.available || undefined,
        LONG_MS,
      );

      await page.click("button", `Check ${MARKUP}`);
      await page.waitForText("answers:", LONG_MS);
      await page.waitForText("Every step succeeded");
      await page.waitForText("load "); // the hardware of the node
      await clean(world);
      await page.click("button", `Delete ${MARKUP}`);
      await page.click("button", "Delete");
      await page.waitForText("All work runs on this machine");
    },
    300_000,
  );
});
