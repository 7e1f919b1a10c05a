import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { ReferenceIndex } from "../../src/resources/server/docs/chapters.ts";
import { CHROMIUM, type Dashboard, openDashboard, SIZES } from "../browser/kit.ts";
import { testApp, until } from "../harness.ts";

const app = testApp();
const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: app.handle });
const origin = server.url.origin;
afterAll(async () => {
  await server.stop(true);
  await app.close();
  app.remove();
});

type Document = {
  openapi: string;
  info: { version: string };
  paths: Record<string, Record<string, { operationId: string }>>;
};
const document = async () => (await app.call("GET", "/openapi.json", undefined, { key: null })).body as Document;
const operations = async () =>
  Object.entries((await document()).paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId }]) => ({ operation: `${method} ${path}`, id: operationId })),
  );

test("the contract is served without a key and holds every resource", async () => {
  const { openapi, info, paths } = await document();
  expect([openapi, info.version]).toEqual(["3.1.0", "0.1.0"]);
  for (const path of ["/v1/workspaces", "/v1/events", "/v1/secrets/{name}", "/healthz"])
    expect(paths).toHaveProperty([path]);
});

test("operation ids are unique, so that a deep link means one thing", async () => {
  const ids = (await operations()).map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
});

test("a client that has the current contract gets 304 instead of the contract", async () => {
  const first = await app.call("GET", "/openapi.json");
  const etag = first.headers.get("etag") ?? "";
  expect(etag).toMatch(/^"[\w-]+"$/);
  for (const tag of [etag, `W/${etag}`, `"old", ${etag}`, "*"]) {
    const again = await app.call("GET", "/openapi.json", undefined, { headers: { "if-none-match": tag } });
    expect([again.status, again.body, again.headers.get("etag")]).toEqual([304, "", etag]);
  }
  const changed = await app.call("GET", "/openapi.json", undefined, { headers: { "if-none-match": '"old"' } });
  expect(changed.status).toBe(200);
});

const indexOf = async () => (await (await fetch(`${origin}/docs/chapters`)).json()) as ReferenceIndex;

test("each route is in one chapter, which has every schema that it needs; chat is the first", async () => {
  const { version, chapters } = await indexOf();
  expect([version, chapters[0]?.title, chapters.at(-1)?.title]).toEqual(["0.1.0", "Chat", "System"]);
  expect(chapters[0]?.operations[0]).toMatchObject({ method: "post", path: "/v1/chat/completions" });
  const whole = await document();
  const shown: string[] = [];
  for (const { name, operations: listed } of chapters) {
    const answer = await fetch(`${origin}/docs/chapters/${name}`);
    expect([answer.status, answer.headers.get("etag")]).toEqual([200, expect.stringMatching(/^"[\w-]+"$/)]);
    const text = await answer.text();
    const body = JSON.parse(text);
    for (const [, kind = "", component = ""] of text.matchAll(/"#\/components\/(\w+)\/([\w.-]+)"/g))
      expect([name, component, body.components[kind]?.[component] === undefined]).toEqual([name, component, false]);
    for (const { method, path, id } of listed) {
      expect(body.paths[path][method]).toEqual(whole.paths[path]?.[method]);
      shown.push(id);
    }
    expect(text.length).toBeLessThan(150_000);
  }
  expect(shown.sort()).toEqual((await operations()).map(({ id }) => id).sort());
  expect((await fetch(`${origin}/docs/chapters/nothing`)).status).toBe(404);
});

test("the page has no inline code, and the policy of the dashboard", async () => {
  const { status, body, headers } = await app.call("GET", "/docs", undefined, { key: null });
  const dashboard = await app.call("GET", "/", undefined, { key: null, headers: { accept: "text/html" } });
  expect(status).toBe(200);
  expect(headers.get("content-security-policy")).toBe(dashboard.headers.get("content-security-policy") ?? "");
  expect(headers.get("content-security-policy")).not.toContain("unsafe");
  expect(body).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]*\bsrc=)/);
  for (const [, name = ""] of String(body).matchAll(/\/assets\/([\w.-]+)/g))
    expect((await app.call("GET", `/assets/${name}`, undefined, { key: null })).status).toBe(200);
});

describe.skipIf(CHROMIUM === null)("the page in a browser", () => {
  let page: Dashboard;
  const text = (selector: string) =>
    page.run<string>(`document.querySelector(${JSON.stringify(selector)})?.innerText ?? ""`);
  const send = (id: string) => page.run(`document.querySelector("#${id} form").requestSubmit()`);
  const fill = (selector: string, value: string) =>
    page.run(`{ const field = document.querySelector(${JSON.stringify(selector)});
      field.value = ${JSON.stringify(value)};
      field.dispatchEvent(new Event("input", { bubbles: true })); }`);

  beforeAll(async () => {
    page = await openDashboard(origin);
    await page.at("/docs#put_secrets_name");
  }, 120_000);
  afterAll(() => page?.close());

  test("a chapter shows all of its operations, and describes everything in text", async () => {
    const articles = () =>
      page.run<string[]>("[...document.querySelectorAll('article[data-operation]')].map(({ id }) => id)");
    const { chapters } = await indexOf();
    for (const { name, operations: listed } of chapters.filter((_, i) => i % 5 === 0)) {
      await page.run(`location.hash = ${JSON.stringify(name)}`);
      const ids = listed.map(({ id }) => id);
      await until(name, async () => (await articles()).join() === ids.join());
      expect(await text("main")).not.toMatch(/\[object |undefined|NaN/);
    }
    const links = await page.run<string[]>("[...document.querySelectorAll('nav li a')].map((a) => a.hash.slice(1))");
    expect(links.sort()).toEqual((await operations()).map(({ id }) => id).sort());
    await page.run('location.hash = "put_secrets_name"');
    await page.waitFor("its chapter", () =>
      page.run<boolean>("document.querySelector('#put_secrets_name form') !== null"),
    );
  });

  test("a deep link opens at its operation", async () => {
    const top = "Math.round(document.querySelector('article:target').getBoundingClientRect().top)";
    await until("the operation to be at the top", async () => Math.abs((await page.run<number>(top)) - 72) < 30);
    expect(await page.run<string>("document.querySelector('article:target').id")).toBe("put_secrets_name");
  });

  test("shows parameters, body, limits and answers of an operation", async () => {
    await page.run('location.hash = "post_api_keys"');
    await page.waitFor("its chapter", () =>
      page.run<boolean>("document.querySelector('#post_api_keys form') !== null"),
    );
    const told = await text("#post_api_keys");
    for (const part of [
      "POST",
      "/v1/api_keys",
      "name",
      "required",
      "1 to 100 characters",
      "one of",
      "inference",
      "Answer 201",
    ])
      expect(told.toLowerCase()).toContain(part.toLowerCase());
    await page.run("history.back()");
    await page.waitFor("the chapter before", () =>
      page.run<boolean>("document.querySelector('#put_secrets_name form') !== null"),
    );
  });

  test("the language of the examples is chosen once for all chapters", async () => {
    const choose = (name: string) =>
      page.run(
        `[...document.querySelectorAll("#put_secrets_name .reference-languages button")].find((each) => each.innerText === "${name}").click()`,
      );
    await choose("Python");
    await until("Python", async () =>
      (await text("#get_secrets .reference-code pre")).startsWith("import json, os, urllib.request"),
    );
    await page.run('location.hash = "webhooks"');
    await until("Python in another chapter", async () =>
      (await text("#get_webhooks .reference-code pre")).includes("urllib.request.Request("),
    );
    await page.run('location.hash = "put_secrets_name"');
    await until("the chapter before", async () => (await text("#put_secrets_name .reference-code pre")) !== "");
    await choose("JavaScript");
    await until("JavaScript", async () =>
      (await text("#put_secrets_name .reference-code pre")).includes("await fetch("),
    );
    await choose("curl");
    await until("curl", async () => (await text("#put_secrets_name .reference-code pre")).startsWith("curl -X PUT"));
  });

  test("the filter opens with / and keeps the matches; arrows move through them, Escape clears", async () => {
    const visible = () =>
      page.run<string[]>(
        "[...document.querySelectorAll('nav li')].filter((li) => li.offsetParent).map((li) => li.innerText)",
      );
    const all = (await visible()).length;
    await page.press("/");
    expect(await page.run<string>("document.activeElement.id")).toBe("filter");
    await page.send("Input.insertText", { text: "workspaces /suspend" });
    expect((await visible()).length).toBe(1);
    await page.press("ArrowDown");
    expect(await page.run<string>("document.activeElement.hash")).toBe("#post_workspaces_id_suspend");
    await page.press("Escape");
    expect((await visible()).length).toBe(all);
  });

  test.skipIf(Bun.which("curl") === null)("the curl command follows the form and runs unchanged", async () => {
    await fill("#put_secrets_name form input", "FROM_CURL");
    await fill("#put_secrets_name form textarea", JSON.stringify({ value: "it's" }));
    const command = await text("#put_secrets_name .reference-code pre");
    expect(command).toContain(`${origin}/v1/secrets/FROM_CURL`);
    const child = Bun.spawn(["sh", "-c", command], {
      env: { ...process.env, VERK_API_KEY: app.keyA },
      stderr: "ignore",
    });
    expect(JSON.parse(await new Response(child.stdout).text())).toMatchObject({ object: "secret", name: "FROM_CURL" });
  });

  test("Try it asks for missing fields, then sends and shows the answer", async () => {
    const answer = () => text("#put_secrets_name .answer");
    await page.run('document.querySelector("#put_secrets_name details.try").open = true');
    await fill("#put_secrets_name form input", "");
    await send("put_secrets_name");
    expect(await text("#put_secrets_name [role=alert]")).toBe("Fill in name");
    await fill("#put_secrets_name form input", "FROM_PAGE");
    await send("put_secrets_name");
    expect(await text("#put_secrets_name [role=alert]")).toContain("API key");
    await fill("#key", app.keyA);
    await send("put_secrets_name");
    await until("the answer", async () => (await answer()).includes('"FROM_PAGE"'));
    expect(await answer()).toStartWith("201 Created");
  });

  test("the key is stored nowhere and no request left the origin", async () => {
    const kept = await page.run<string>(
      "JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])",
    );
    expect(kept).not.toContain(app.keyA);
    expect(page.requests.length).toBeGreaterThan(2);
    expect(page.requests.filter((url) => !url.startsWith(`${origin}/`) && !url.startsWith("data:"))).toEqual([]);
    expect(page.complaints).toEqual([]);
  });

  test("fits every width, has no serious finding of axe, and leads back to the dashboard", async () => {
    await page.at("/docs");
    for (const size of [SIZES.phone, SIZES.tablet, SIZES.desktop]) {
      await page.resize(size);
      expect(await page.faults()).toEqual([]);
    }
    expect(await text("main h1")).toBe("API reference");
    expect(await text("main .reference-chapter")).toBe("Chat");
    expect(await page.axe()).toEqual([]);
    await page.click("link", "Dashboard");
    await page.waitFor("the dashboard", async () => (await page.path()) === "/");
  });
});
