/** When one of these fails at "plain Elysia", a new version has fixed it: remove the item from elysia.ts and its test. */
import { describe, expect, test } from "bun:test";
import { Elysia } from "elysia";
import { z } from "zod";
import { announceLength, compilePlainReads, leaveBodies, ROUTER } from "./elysia.ts";
import { asks } from "./query.ts";
import { stateOf } from "./request_state.ts";

const get = (path: string, method = "GET") => new Request(`http://localhost${path}`, { method });

describe("a short host", () => {
  const statusWith = async (router: object) =>
    (await new Elysia(router).get("/v1/things", () => "found").fetch(new Request("http://x/v1/things"))).status;
  test("plain Elysia finds half of the path", async () => expect(await statusWith({ aot: true })).toBe(404));
  test("ROUTER finds the route", async () => expect(await statusWith(ROUTER)).toBe(200));
});

describe("a query value", () => {
  const Query = z.object({ value: z.unknown() });
  const valueWith = async (options: object) => {
    const app = new Elysia(ROUTER).get("/", ({ query }) => Response.json((query as { value: unknown }).value), options);
    return await (await app.fetch(get("/?value=[1,2]"))).json();
  };
  test("plain Elysia reads it as JSON", async () => expect(await valueWith({ query: Query })).not.toBe("[1,2]"));
  test("asks gives the text", async () => expect(await valueWith(asks(Query))).toBe("[1,2]"));
});

describe("HEAD of a file", () => {
  const head = get("/", "HEAD");
  const file = () => {
    stateOf(head).announcedLength = 5;
    return new Response(null, { headers: { "content-length": "5" } });
  };
  test("plain Elysia announces the empty body, and announceLength the file", async () => {
    const response = await new Elysia(ROUTER).get("/", file).fetch(head);
    expect(response.headers.get("content-length")).not.toBe("5");
    announceLength(head, response);
    expect(response.headers.get("content-length")).toBe("5");
  });
});

test("plain Elysia parses a body before it derives", async () => {
  const order: string[] = [];
  const parse = () => {
    order.push("parse");
    return {};
  };
  const app = new Elysia(ROUTER)
    .derive(() => {
      order.push("derive");
      return {};
    })
    .post("/", ({ body }) => body, { body: z.object({}), parse: [parse] });
  await app.fetch(new Request("http://localhost/", { method: "POST", body: "{}" }));
  expect(order).toEqual(["parse", "derive"]);
});

describe("a handler that passes its context on", () => {
  const passed = (context: object) => Object.keys(context).length;
  const routes = () => new Elysia(ROUTER).post("/", (context) => passed(context));
  const post = () =>
    new Request("http://localhost/", { method: "POST", body: "{", headers: { "content-type": "application/json" } });
  test("plain Elysia parses the body", async () => expect((await routes().fetch(post())).status).toBe(400));
  test("leaveBodies leaves it", async () => {
    const app = routes();
    leaveBodies(app);
    expect((await app.fetch(post())).status).toBe(200);
  });
});

describe("a handler that calls a function", () => {
  const answer = () => new Response("plain");
  const routes = () =>
    new Elysia(ROUTER)
      .derive(() => Object.assign({}, { derived: answer() }))
      .get("/", ({ derived }) => derived.clone());
  test("plain Elysia answers with a promise", () => expect(routes().fetch(get("/"))).toBeInstanceOf(Promise));
  test("compilePlainReads lets it answer at once, and a promise still works", async () => {
    const app = routes().get("/later", async () => answer());
    compilePlainReads(app);
    expect(app.fetch(get("/"))).toBeInstanceOf(Response);
    expect(await (await app.fetch(get("/later"))).text()).toBe("plain");
  });
});
