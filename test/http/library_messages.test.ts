// tier: all (one request for each field of each operation, 60 s)
/**
 * No text of a library reaches a person. The validator, the runtime and the native libraries have words of their own;
 * each is put into ours in one place. These tests drive the routes, the settings and the connections that can produce one.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { createServer, type Server, type Socket } from "node:net";
import { z } from "zod";
import { request } from "../../src/cli/client.ts";
import { connectionFailure } from "../../src/lib/net/connection_failure.ts";
import { issueText } from "../../src/lib/text/issue.ts";
import { loadConfig } from "../../src/platform/config/config.ts";
import { SETTINGS } from "../../src/platform/config/schema.ts";
import { leaves } from "../../src/platform/config/walk.ts";
import { networkPolicy } from "../../src/platform/network/address.ts";
import { guardedOpen } from "../../src/platform/network/http_client.ts";
import { type TestApp, testApp } from "../harness.ts";

/** Words of zod, of Bun and its fetch, and of ggml. */
const OF_LIBRARIES =
  /Too (big|small): expected|Invalid (input|option|key|element|string|number|discriminator|ISO|URL|UUID|email)|Unrecognized key|received undefined|Unable to connect|verbose: true|socket connection was|typo in the url|ggml_|GGML_|gguf_init|llama_model/;

let app: TestApp;
beforeAll(() => {
  app = testApp();
});
afterAll(() => app.close().then(app.remove));

const LONG = "x".repeat(20_000);
const WRONG: readonly unknown[] = [
  undefined,
  null,
  true,
  -1,
  1e300,
  0.5,
  "",
  LONG,
  [],
  [7],
  Array(300).fill({}),
  {},
  { [LONG.slice(0, 500)]: "x" },
  { a: { b: 1 } },
];

// biome-ignore format: a table should look like one
const KINDS: readonly [name: string, schema: z.ZodType, value: unknown][] = [
  ["union", z.union([z.string(), z.array(z.string())]), 7],
  ["union of records", z.union([z.object({ a: z.string() }), z.object({ b: z.array(z.int()) })]), { b: ["x"] }],
  ["tagged union", z.discriminatedUnion("t", [z.object({ t: z.literal("a") })]), { t: "x" }],
  ["exclusive union", z.xor([z.string(), z.string()]), "a"],
  ["key of a record", z.record(z.string().max(2), z.number()), { abc: 1 }],
  ["map", z.map(z.string(), z.string()), {}],
  ["set", z.set(z.string()).min(2), new Set()],
  ["e-mail", z.email(), "x"], ["URL", z.url(), "x"], ["UUID", z.uuid(), "x"], ["IP", z.ipv4(), "x"], ["base64", z.base64(), "%"],
  ["time", z.iso.datetime(), "x"], ["date", z.iso.date(), "x"],
  ["pattern", z.string().regex(/a/), "b"], ["beginning", z.string().startsWith("a"), "b"], ["letters", z.string().lowercase(), "B"],
  ["length", z.string().length(3), "x"], ["list length", z.array(z.string()).length(3), []], ["tuple", z.tuple([z.string()]), []],
  ["multiple", z.number().multipleOf(3), 4], ["NaN", z.number(), Number.NaN], ["infinity", z.number(), Number.POSITIVE_INFINITY],
  ["never", z.never(), 1], ["null", z.literal(null), 1], ["number literals", z.literal([1, 2]), 3],
  ["own check without words", z.string().refine(() => false), "x"], ["template", z.templateLiteral(["a", z.number()]), "b"],
  ["bytes", z.instanceof(Uint8Array), "x"], ["file", z.file().max(2), new File(["abc"], "a")], ["bigint", z.bigint(), 1],
];

test.each(KINDS)("an error of the kind %s has our words", (_name, schema, value) => {
  for (const each of [value, ...WRONG]) {
    const issue = schema.safeParse(each).error?.issues[0];
    if (issue) expect(issueText(issue as never)).not.toMatch(OF_LIBRARIES);
  }
});

test("a union names every form that fits nothing, and the form that nearly fits", () => {
  const stop = z.union([z.string(), z.array(z.string()).max(16)]);
  const wordsOf = (value: unknown) => issueText(stop.safeParse(value).error?.issues[0] as never);
  expect(wordsOf(7)).toBe("must be a text or a list, not a number");
  expect(wordsOf(Array(17).fill("x"))).toBe("must have at most 16 items");
  const bias = z.record(z.string().regex(/^\d+$/, "must be the id of a token"), z.number());
  const issue = bias.safeParse({ word: 1 }).error?.issues[0];
  expect(issueText(issue as never)).toBe('has the name "word", which must be the id of a token');
});

type Operation = { requestBody?: { content?: Record<string, { schema?: { $ref?: string; properties?: object } }> } };
type Document = {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, { properties?: object }> };
};

test("every field of every operation refuses wrong values in our words", async () => {
  const document = (await app.call("GET", "/openapi.json")).body as Document;
  const bad: string[] = [];
  let answers = 0;
  const send = async (method: string, path: string, body: unknown) => {
    const answer = await app.call(method, path.replaceAll(/\{\w+\}/g, "none"), body);
    answers++;
    if (OF_LIBRARIES.test(JSON.stringify(answer.body ?? "")))
      bad.push(`${method} ${path}: ${JSON.stringify(answer.body).slice(0, 300)}`);
  };
  for (const [path, operations] of Object.entries(document.paths))
    for (const [method, { requestBody }] of Object.entries(operations)) {
      const schema = requestBody?.content?.["application/json"]?.schema;
      if (!schema || path === "/setup") continue;
      const shape = schema.$ref ? document.components.schemas[schema.$ref.split("/").at(-1) ?? ""] : schema;
      for (const value of [null, [], "x", 7]) await send(method.toUpperCase(), path, value);
      for (const field of Object.keys(shape?.properties ?? {}))
        for (const value of WRONG) await send(method.toUpperCase(), path, { [field]: value });
    }
  expect(bad).toEqual([]);
  expect(answers).toBeGreaterThan(2_000);
}, 600_000);

test("hyperparameters and settings refuse wrong values in our words", async () => {
  const defaults = (await app.call("GET", "/openapi.json")).body as Document;
  const names = Object.keys(
    defaults.components.schemas["GrpoHyperparameters"]?.properties ?? {
      learning_rate: 0,
      per_device_train_batch_size: 0,
    },
  );
  const bad: string[] = [];
  for (const name of names)
    for (const value of WRONG) {
      const request = {
        base_model: "verk-tiny",
        method: "grpo",
        output_name: "x",
        hyperparameters: { [name]: value },
        lora: { [name]: value },
      };
      const { body } = await app.call("POST", "/v1/training_jobs/validate", request);
      if (OF_LIBRARIES.test(JSON.stringify(body))) bad.push(JSON.stringify(body).slice(0, 300));
    }
  for (const { path, env } of leaves(SETTINGS))
    for (const text of ["", "-1", "1e99", "99999999999", "x", "true", "a,b", LONG])
      try {
        loadConfig({ env: { [env]: text } });
      } catch (error) {
        if (OF_LIBRARIES.test((error as Error).message)) bad.push(`${path}: ${(error as Error).message.slice(0, 300)}`);
      }
  expect(bad).toEqual([]);
}, 300_000);

/** Servers that break a connection: a closed port, a socket that ends at once or in the middle, and an answer that is no HTTP. */
const SERVERS: readonly [name: string, reply: (socket: Socket) => void][] = [
  ["resets", (socket) => socket.resetAndDestroy()],
  ["ends at once", (socket) => socket.end()],
  ["ends in the middle", (socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")],
  ["speaks another protocol", (socket) => socket.end("SSH-2.0-OpenSSH_9\r\n\r\n")],
];

async function listening(reply: (socket: Socket) => void): Promise<{ server: Server; port: number }> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => reply(socket));
  }).listen(0, "127.0.0.1");
  await new Promise((done) => server.once("listening", done));
  return { server, port: (server.address() as { port: number }).port };
}

const messageOf = (work: Promise<unknown>) =>
  work.then(
    () => "",
    (error: unknown) => (error as Error).message,
  );

const POLICY = networkPolicy({ ...loadConfig().network, allow: ["127.0.0.1"] });
const attempts = (url: string) => [
  messageOf(
    request(url, {}).then((response) =>
      response.text().catch((cause) => Promise.reject(new Error(connectionFailure(cause)))),
    ),
  ),
  messageOf(
    guardedOpen(url, { policy: POLICY, allowHttp: true, timeoutMs: 20_000, idleMs: 20_000 }).then(({ stream }) =>
      new Response(stream).text(),
    ),
  ),
];

test.each(SERVERS)("a server that %s is reported in our words", async (_name, reply) => {
  const { server, port } = await listening(reply);
  for (const scheme of ["http", "https"])
    for (const said of await Promise.all(attempts(`${scheme}://127.0.0.1:${port}/`))) {
      if (scheme === "https") expect(said).not.toBe("");
      expect(said).not.toMatch(OF_LIBRARIES);
      expect(said).not.toContain("refused"); // the guard let it through
    }
  await new Promise((done) => server.close(done));
});

test("a closed port is reported in our words", async () => {
  const { server, port } = await listening(() => {});
  await new Promise((done) => server.close(done));
  const [cli = "", guard = ""] = await Promise.all(attempts(`http://127.0.0.1:${port}/`));
  expect(cli).toBe(
    `Cannot reach http://127.0.0.1:${port}: the connection was refused. Check that a server runs there.`,
  );
  expect(guard).toBe(`The connection failed (ECONNREFUSED) at 127.0.0.1:${port}`);
});
