// tier: all (whole paths on the executable)
/**
 * Traces of a real server. Secrets and redacted text occur in no file of the data directory, in no line of the log, in no
 * answer. A kill loses at most the traces in memory, and leaves no half of one.
 */
import { Database } from "bun:sqlite";
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { until } from "../harness.ts";

setDefaultTimeout(300_000);
type Server = Awaited<ReturnType<typeof startBinary>>;
const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

async function start(dir?: string): Promise<Server> {
  const server = await startBinary({ env: { VERK_LOG__LEVEL: "debug" }, ...(dir === undefined ? {} : { dir }) });
  undo.push(() => server.kill("SIGKILL"));
  if (dir === undefined) undo.unshift(() => rmSync(server.dir, { recursive: true, force: true }));
  return server;
}

async function deploy(server: Server, fields: object) {
  const { body } = await server.call("POST", "/v1/deployments", { model: "verk-tiny", name: "demo", ...fields });
  await until(
    "it to serve",
    async () => (await server.call("GET", `/v1/deployments/${body.id}`)).body.status === "serving",
    120_000,
  );
  return body.id as string;
}

const chat = (server: Server, content: string, more: object = {}) =>
  server.call("POST", "/v1/chat/completions", {
    model: "demo",
    max_tokens: 8,
    messages: [{ role: "user", content }],
    ...more,
  });

/** In the ways a text may have been written down. */
const formsOf = (secret: string) => [
  secret,
  encodeURIComponent(secret),
  JSON.stringify(secret).slice(1, -1),
  Buffer.from(secret).toString("hex"),
];

const filesBelow = (dir: string) =>
  (readdirSync(dir, { recursive: true }) as string[])
    .map((name) => join(dir, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile());

test("secrets and redacted text occur in no file, no line of the log and no answer", async () => {
  const server = await start();
  const secrets = {
    stored: 'marked "Stored" secret/4711',
    card: "4929123456781234",
    key: `sk-${"m4RkEd".repeat(6)}`,
    name: "Marked-Customer-Name",
  };
  await server.call("PUT", "/v1/secrets/TOKEN", { value: secrets.stored });
  await deploy(server, { capture: "full", capture_redact: ["\\b\\d{16}\\b", "(?i)marked-customer-\\w+"] });
  const everything = `keep this: ${Object.values(secrets).join(" ; ")}`;
  const more = {
    metadata: { conversation_id: secrets.card, note: everything },
    stop: [secrets.name],
    tools: [{ type: "function", function: { name: "f", description: everything } }],
  };
  const traced: string[] = [];
  for (const stream of [false, true]) {
    const answer = await chat(server, everything, { ...more, stream });
    expect(answer.status).toBe(200);
    traced.push(answer.headers.get("x-trace-id") ?? "");
  }
  const completion = await server.call("POST", "/v1/completions", { model: "demo", prompt: everything, echo: true });
  traced.push(completion.headers.get("x-trace-id") ?? "");
  const value = { stringValue: everything };
  const span = {
    traceId: "a".repeat(32),
    spanId: "b".repeat(16),
    startTimeUnixNano: "1",
    endTimeUnixNano: "2",
    name: "chat",
    attributes: ["gen_ai.request.model", "gen_ai.prompt", "error.type", "gen_ai.agent.id"].map((key) => ({
      key,
      value,
    })),
  };
  const leaks = everything.replace(secrets.card, "").replace(secrets.name, ""); // outside traces have no patterns of a deployment
  const outside = JSON.parse(JSON.stringify(span).replaceAll(JSON.stringify(everything), JSON.stringify(leaks)));
  await server.call("POST", "/v1/otlp/v1/traces", { resourceSpans: [{ scopeSpans: [{ spans: [outside] }] }] });
  const answers: string[] = [];
  for (const id of traced) {
    const trace = await until("its trace", async () => {
      const answer = await server.call("GET", `/v1/traces/${id}`);
      return answer.status === 200 ? answer : undefined;
    });
    expect(trace.body).toMatchObject({ capture: "full", status: 200 });
    expect(trace.text).toContain("keep this");
    expect(trace.text).toContain("[redacted]");
    answers.push(trace.text);
  }
  const score = { name: "note", value: leaks, kind: "text", comment: leaks };
  answers.push((await server.call("POST", `/v1/traces/${traced[0]}/scores`, score)).text);
  for (const path of [
    "/v1/traces",
    "/v1/traces/export",
    "/v1/traces/conversations",
    "/v1/events?limit=100",
    "/v1/metrics",
  ])
    answers.push((await server.call("GET", path)).text);
  const { stderr } = await server.kill("SIGTERM");
  const files = filesBelow(server.dir);
  expect(files.some((path) => path.endsWith("verk.db"))).toBeTrue();
  for (const [what, secret] of Object.entries(secrets))
    for (const form of formsOf(secret)) {
      expect([what, answers.filter((text) => text.includes(form))]).toEqual([what, []]);
      expect([what, stderr.includes(form)]).toEqual([what, false]);
      expect([what, files.filter((path) => readFileSync(path).includes(form))]).toEqual([what, []]);
    }
  expect(files.some((path) => readFileSync(path).includes("keep this"))).toBeTrue(); // the search finds what is there
});

test("a kill loses at most the traces in memory, and leaves no half of one", async () => {
  const server = await start();
  const id = await deploy(server, { capture: "full" });
  const metadata = { conversation_id: "talk" };
  const first = await chat(server, "durable words", { metadata });
  await until(
    "its trace",
    async () => (await server.call("GET", `/v1/traces/${first.headers.get("x-trace-id")}`)).status === 200,
  );
  const load = Array.from({ length: 24 }, (_, i) =>
    chat(server, `load number${i}`, { metadata }).catch(() => undefined),
  );
  await Promise.race(load);
  await server.kill("SIGKILL");
  await Promise.all(load);
  const again = await start(server.dir);
  const { body } = await again.call("GET", `/v1/traces?deployment_id=${id}&limit=100`);
  expect(body.data.length).toBeGreaterThanOrEqual(1);
  expect(body.data.at(-1).id).toBe(first.headers.get("x-trace-id"));
  const found = await again.call("GET", "/v1/traces?q=words+durable");
  expect(found.body.data).toHaveLength(1);
  const talk = await again.call("GET", "/v1/traces/conversations/talk");
  expect(talk.body.trace_count).toBe(body.data.length);
  await again.kill("SIGTERM");
  const db = new Database(join(server.dir, "verk.db"), { readonly: true });
  const count = (sql: string) => db.query<{ n: number }, []>(sql).get()?.n;
  expect(count("SELECT count(*) AS n FROM traces WHERE input IS NULL OR output IS NULL AND status = 200")).toBe(0);
  expect(count("SELECT count(*) AS n FROM trace_text_docsize")).toBe(body.data.length); // a row of words for each trace
  db.close();
});

test("verk traces lists, shows and exports", async () => {
  const server = await start();
  await deploy(server, { capture: "full" });
  const id = (await chat(server, "hello there")).headers.get("x-trace-id") ?? "";
  await until("its trace", async () => (await server.call("GET", `/v1/traces/${id}`)).status === 200);
  const env = { VERK_URL: server.url, VERK_API_KEY: await server.apiKey() };
  const listed = await server.verk(["traces", "list", "--deployment", "demo", "--status", "ok", "--search", "hello"], {
    env,
  });
  expect([listed.code, listed.out.includes(id)]).toEqual([0, true]);
  const shown = await server.verk(["traces", "show", id], { env });
  expect(shown.out).toMatch(/span decode +\S+ ms/);
  expect(shown.out).toContain("hello there");
  const exported = await server.verk(["traces", "export"], { env });
  expect(JSON.parse(exported.out)).toMatchObject({ id, source: "chat" });
  const wrong = await server.verk(["traces", "list", "--status", "maybe"], { env });
  expect([wrong.code, wrong.err]).toEqual([1, expect.stringContaining("--status")]);
});
