import { afterEach, describe, expect, test } from "bun:test";
import { manyApps } from "../harness.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const KIB = 1024;

describe("H1: limits of bodies", () => {
  test("a route with small bodies accepts 256 KiB, and the refusal says so", async () => {
    const app = open();
    const { status, body } = await app.call("POST", "/v1/volumes", { name: "x".repeat(256 * KIB) });
    expect([status, body.error.code, body.error.message]).toEqual([
      413,
      "payload_too_large",
      "The body is larger than 262144 bytes",
    ]);
    const small = open({ flags: { "http.max_body_bytes": 2048 } });
    const refused = await small.call("POST", "/v1/volumes", { name: "x".repeat(2048) });
    expect(refused.body.error.message).toBe("The body is larger than 2048 bytes");
  });

  test("more values than a route accepts are refused before they are checked", async () => {
    const app = open();
    const many = Array.from({ length: 5_000 }, () => 1);
    const { status, body } = await app.call("POST", "/v1/webhooks", { url: "https://example.com", event_types: many });
    expect([status, body.error.message]).toEqual([
      413,
      "The body has more than 4000 values (list elements and fields)",
    ]);
    const fields = Object.fromEntries(Array.from({ length: 10_001 }, (_, i) => [`k${i}`, 1]));
    const chat = await app.call("POST", "/v1/chat/completions", { model: "x", messages: [], logit_bias: fields });
    expect([chat.status, chat.body.error.message]).toEqual([413, "An object in the body has more than 10000 fields"]);
    const hyperparameters = Object.fromEntries(Object.entries(fields).slice(0, 1_001));
    const job = await app.call("POST", "/v1/training_jobs/validate", { method: "sft", hyperparameters });
    expect([job.status, job.body.error.message]).toEqual([413, "An object in the body has more than 1000 fields"]);
  });

  test("unknown hyperparameters give at most twenty errors for each object", async () => {
    const app = open();
    const names = Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`learning_rat${i}`, 1]));
    const lora = Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`alph${i}`, 1]));
    const ask = { method: "sft", base_model: "verk-tiny", hyperparameters: names, lora };
    const { body } = await app.call("POST", "/v1/training_jobs/validate", ask);
    const about = (field: string) =>
      body.errors.filter(({ param }: { param: string }) => param.startsWith(`/${field}`)) as { message: string }[];
    expect(about("hyperparameters")).toHaveLength(20);
    expect(about("hyperparameters")[0]?.message).toContain("Did you mean learning_rate?");
    expect(about("lora").length).toBeLessThanOrEqual(20);
  });

  test("a field name of a megabyte starts no search and is not sent back", async () => {
    const app = open();
    const long = "x".repeat(1 << 20);
    const ask = { method: "sft", base_model: "verk-tiny", hyperparameters: { [long]: 1 } };
    const { body } = await app.call("POST", "/v1/training_jobs/validate", ask);
    expect(JSON.stringify(body).length).toBeLessThan(5_000);
    expect(JSON.stringify(body)).toContain("hyperparameters.xxx");
    const refused = await app.call("POST", "/v1/volumes", { name: "v", metadata: { ["x".repeat(200_000)]: "1" } });
    expect(refused.status).toBe(422);
    expect(JSON.stringify(refused.body).length).toBeLessThan(3_000);
  });

  test("texts and tokens are checked up to the first that does not fit", async () => {
    const app = open();
    const refusal = async (input: unknown) => {
      const { status, body } = await app.call("POST", "/v1/embeddings", { model: "x", input });
      return status === 400 ? `${body.error.param} ${body.error.message}` : `${status} ${body.error.code}`;
    };
    const tokens = Array.from({ length: 100_000 }, (_, i) => i);
    expect(await refusal(tokens)).toBe("404 model_not_found"); // no such deployment: the body was taken
    expect(await refusal([tokens, tokens])).toBe("404 model_not_found");
    expect(await refusal(["a", "b"])).toBe("404 model_not_found");
    expect(await refusal([...tokens, "x", -1])).toBe("/input/100000 input.100000: must be a token id");
    expect(await refusal([[1], [1.5]])).toBe("/input/1/0 input.1.0: must be a token id");
    expect(await refusal(["a", 1])).toBe("/input/1 input.1: must be a string or a list of token ids");
    expect(await refusal(["a", []])).toBe("/input/1 input.1: must not be an empty list");
    expect(await refusal([])).toBe("/input input: must not be an empty list");
    expect(await refusal([{}])).toStartWith("/input/0 input.0: must be a string, a list");
    expect(await refusal(Array.from({ length: 2_049 }, () => [1]))).toBe(
      "/input input: must have at most 2048 entries",
    );
    expect(await refusal(null)).toStartWith("/input input: must be a string");
  });
});

describe("H2: requests under way and bodies in memory", () => {
  test("a key at its limit of open requests gets 429, and another key is served", async () => {
    const app = open({ flags: { "http.max_requests_per_key": 2 } });
    const hold = Array.from({ length: 2 }, () => Promise.withResolvers<void>());
    const slow = hold.map(({ promise }) => {
      const body = new ReadableStream({
        async pull(controller) {
          await promise;
          controller.enqueue(new TextEncoder().encode('{"name":"slow"}'));
          controller.close();
        },
      });
      return app.call("POST", "/v1/volumes", undefined, { raw: body });
    });
    const refused = await app.call("POST", "/v1/volumes", { name: "one" });
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(refused.body.error.message).toBe("This key has 2 requests under way, the most at a time: wait for answers");
    expect((await app.call("GET", "/v1/volumes")).status).toBe(200);
    expect((await app.call("POST", "/v1/volumes", { name: "two" }, { key: app.keyB })).status).toBe(201);
    for (const { resolve } of hold) resolve();
    await Promise.all(slow);
    expect((await app.call("POST", "/v1/volumes", { name: "three" })).status).toBe(201);
  });

  test("a body that exceeds the memory of its workspace is refused with 503, and its bytes are released", async () => {
    const app = open({ flags: { "http.workspace_body_memory_bytes": 1 << 20, "http.body_memory_bytes": 4 << 20 } });
    const stuck = Promise.withResolvers<void>();
    const growing = (bytes: number, then: Promise<void>) =>
      new ReadableStream({
        async start(controller) {
          controller.enqueue(new Uint8Array(bytes).fill(32));
          await then;
          controller.enqueue(new TextEncoder().encode('{"name":"grown"}'));
          controller.close();
        },
      });
    const chat = (body: BodyInit, key = app.keyA) =>
      app.call("POST", "/v1/chat/completions", undefined, { raw: body, key });
    const first = chat(growing(900_000, stuck.promise));
    const ask = `{"model":"none","messages":[{"role":"user","content":"x"}]}${" ".repeat(200_000)}`;
    const refused = await chat(ask);
    expect([refused.status, refused.body.error.code, refused.headers.get("retry-after")]).toEqual([
      503,
      "no_capacity",
      "1",
    ]);
    expect((await chat(growing(200_000, Promise.resolve()))).status).toBe(503);
    expect((await chat(ask, app.keyB)).status).toBe(404); // another workspace is served
    stuck.resolve();
    expect((await first).status).toBe(400);
    expect((await chat(ask)).status).toBe(404);
  });
});

test("a refused key writes ten rows into the audit log at once, not one for each call", async () => {
  const app = open();
  const { key, row } = app.keyOf("alpha", ["*"]);
  await app.call("DELETE", `/v1/api_keys/${row.id}`);
  for (let i = 0; i < 50; i++)
    expect((await app.call("POST", "/v1/volumes", { name: `v${i}` }, { key })).status).toBe(401);
  const { body } = await app.call("GET", `/v1/account/audit_log?key_id=${row.id}&limit=100`);
  expect(body.data.map(({ status }: { status: number }) => status)).toEqual(Array.from({ length: 10 }, () => 401));
});
