// tier: all (whole paths on the executable)
/** Images through the executable: imported with a projector, asked by four clients, and hostile files. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import sharp from "sharp";
import { runVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { type ModelOptions, makeModel } from "../models.ts";
import { makePicture, makeProjector } from "../projectors.ts";
import { startServing } from "../serving/served.ts";

const MODEL: ModelOptions = { arch: "llama", type: "F32", context: 1024 };
let server: Awaited<ReturnType<typeof startServing>>;
let pictures: ReturnType<typeof Bun.serve>;
const made = tempDir();

const png = async (width: number, height: number, seed: number) => {
  const { pixels } = makePicture(width, height, seed);
  return await sharp(pixels, { raw: { width, height, channels: 3 } })
    .png()
    .toBuffer();
};
const dataUrl = (bytes: Buffer) => `data:image/png;base64,${bytes.toString("base64")}`;
const verk = (...args: string[]) => runVerk(["models", ...args, "--data", server.dir], { cwd: server.dir });

let first: Buffer;
let second: Buffer;
beforeAll(async () => {
  [first, second] = [await png(90, 60, 1), await png(90, 60, 2)];
  pictures = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response(new Uint8Array(first)) });
  server = await startServing({
    models: { blind: MODEL },
    settings: { VERK_NETWORK__ALLOW: "127.0.0.1", VERK_WORKERS__SILENCE_MS: "600000" },
  });
  const folder = join(made, "llava");
  mkdirSync(folder);
  writeFileSync(join(folder, "llava.gguf"), await Bun.file(makeModel(made, MODEL)).bytes());
  const projector = makeProjector(made, { kind: "mlp", outputs: 64, hasClass: true });
  writeFileSync(join(folder, "mmproj-llava.gguf"), await Bun.file(projector).bytes());
  expect(await verk("import", folder, "--name", "sees")).toMatchObject({ code: 0, out: "sees\n" });
  await server.deploy({ model: "sees", name: "sees", parallel: 2, context_length: 1024 });
  await server.deploy({ model: "blind", name: "blind", parallel: 1, context_length: 512 });
}, 180_000);
afterAll(async () => {
  await pictures?.stop(true);
  await server?.stop();
});

const imagePart = (url: string) => ({ type: "image_url" as const, image_url: { url } });
const messagesWith = (...urls: string[]) => [
  { role: "user" as const, content: [{ type: "text" as const, text: "What is it?" }, ...urls.map(imagePart)] },
];
const ask = (messages: unknown, more: object = {}) =>
  server.call("POST", "/v1/chat/completions", {
    model: "sees",
    messages,
    max_tokens: 16,
    temperature: 0,
    ...more,
  });
const textOf = ({ body }: Awaited<ReturnType<typeof ask>>): string => body.choices[0].message.content;

describe("a model with a projector", () => {
  test("answers by the image: the same one the same, another one something else", async () => {
    const seen = await ask(messagesWith(dataUrl(first)));
    expect(seen).toMatchObject({ status: 200 });
    expect(seen.body.usage.prompt_tokens).toBeGreaterThan(16);
    const other = await ask(messagesWith(dataUrl(second)));
    expect(textOf(other)).not.toBe(textOf(seen));
    const again = await ask(messagesWith(dataUrl(first)));
    expect(textOf(again)).toBe(textOf(seen));
    expect(again.body.usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(16);
  });

  test("reads an image from an address, in another format, and two in their order", async () => {
    const seen = textOf(await ask(messagesWith(dataUrl(first))));
    expect(textOf(await ask(messagesWith(pictures.url.href)))).toBe(seen);
    const webp = await sharp(first).webp({ lossless: true }).toBuffer();
    expect(textOf(await ask(messagesWith(`data:image/webp;base64,${webp.toString("base64")}`)))).toBe(seen);
    const both = await ask(messagesWith(dataUrl(first), dataUrl(second)));
    const turned = await ask(messagesWith(dataUrl(second), dataUrl(first)));
    expect(both.body.usage.prompt_tokens).toBe(turned.body.usage.prompt_tokens);
    expect(textOf(both)).not.toBe(textOf(turned));
  });

  test("is asked by the clients of OpenAI, Anthropic and Ollama with the same answer", async () => {
    const apiKey = server.key;
    const wanted = textOf(await ask(messagesWith(dataUrl(first))));
    const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey });
    const data = first.toString("base64");
    const input = [
      {
        role: "user" as const,
        content: [
          { type: "input_text" as const, text: "What is it?" },
          { type: "input_image" as const, image_url: dataUrl(first), detail: "auto" as const },
        ],
      },
    ];
    const limits = { max_output_tokens: 16, temperature: 0 };
    expect((await openai.responses.create({ model: "sees", input, ...limits })).output_text).toBe(wanted);
    const greedy = { temperature: 0 }; // the types of the newest client leave it out
    const anthropic = new Anthropic({ baseURL: server.url, apiKey });
    const source = { type: "base64" as const, media_type: "image/png" as const, data };
    const content = [
      { type: "text" as const, text: "What is it?" },
      { type: "image" as const, source },
    ];
    const messages = [{ role: "user" as const, content }];
    const said = await anthropic.messages.create({ model: "sees", messages, max_tokens: 16, ...greedy });
    expect(said.content).toMatchObject([{ type: "text", text: wanted }]);
    const counted = await anthropic.messages.countTokens({ model: "sees", messages });
    // The cache holds the prompt of the request before; its tokens are counted apart.
    expect(counted.input_tokens).toBe(said.usage.input_tokens + (said.usage.cache_read_input_tokens ?? 0));
    const options = { num_predict: 16, temperature: 0 };
    const chat = { model: "sees", stream: false, options };
    const told = await server.call("POST", "/api/chat", {
      ...chat,
      messages: [{ role: "user", content: "What is it?", images: [data] }],
    });
    const before = messagesWith(dataUrl(first)).map((message) => ({
      ...message,
      content: message.content.toReversed(),
    }));
    expect(told.body.message.content).toBe(textOf(await ask(before)));
    const generated = await server.call("POST", "/api/generate", { ...chat, prompt: "What is it?", images: [data] });
    expect(generated.body.response).toBe(told.body.message.content);
  });

  test("streams, and takes several answers", async () => {
    const wanted = textOf(await ask(messagesWith(dataUrl(first))));
    const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key });
    const fields = { model: "sees", messages: messagesWith(dataUrl(first)), max_tokens: 16, temperature: 0 };
    let text = "";
    for await (const { choices } of await client.chat.completions.create({ ...fields, stream: true }))
      text += choices[0]?.delta.content ?? "";
    expect(text).toBe(wanted);
    const several = await client.chat.completions.create({ ...fields, n: 2 });
    expect(several.choices.map(({ message }) => message.content)).toEqual([wanted, wanted]);
  });

  test("refuses a hostile or missing image with its field, and goes on", async () => {
    const at = "/messages/0/content/1/image_url/url";
    const bomb = Buffer.from(first);
    bomb.writeUInt32BE(3_000_000, 16); // its width, and below the checksum of that part
    bomb.writeUInt32BE(Bun.hash.crc32(bomb.subarray(12, 29)), 29);
    for (const [url, status] of [
      [`data:image/png;base64,${Buffer.from("no image").toString("base64")}`, 415],
      [dataUrl(first.subarray(0, 200)), 400],
      ["data:image/png;base64,!!!", 400],
      ["file:///etc/passwd", 400],
      ["http://169.254.169.254/latest", 400],
      ["data:image/x-rgb;width=1;height=1;base64,AAAA", 415],
      [dataUrl(bomb), 413],
    ] as const) {
      const refused = await ask(messagesWith(url));
      expect([url.slice(0, 40), refused.status, refused.body.error.param]).toEqual([url.slice(0, 40), status, at]);
    }
    const many = await ask(messagesWith(...Array.from({ length: 11 }, () => dataUrl(first))));
    expect([many.status, many.body.error.message]).toEqual([400, expect.stringContaining("the maximum is 10")]);
    expect((await ask(messagesWith(dataUrl(first)))).status).toBe(200);
  }, 60_000);

  test("reads images after it was parked: the standby process gets the projector too", async () => {
    const seen = textOf(await ask(messagesWith(dataUrl(first))));
    const { id } = await server.get("/v1/deployments/sees");
    await server.call("PATCH", `/v1/deployments/${id}`, { min_replicas: 0 });
    await until("the deployment to be parked", async () => {
      await server.call("POST", `/v1/deployments/${id}/park`);
      return (await server.get(`/v1/deployments/${id}`)).parked;
    });
    expect(textOf(await ask(messagesWith(dataUrl(first))))).toBe(seen);
  }, 60_000);

  test("keeps its images out of traces", async () => {
    const deployment = (await server.get("/v1/deployments/sees")).id;
    await server.call("PATCH", `/v1/deployments/${deployment}`, { capture: "full" });
    expect((await ask(messagesWith(dataUrl(second)))).status).toBe(200);
    const input = await until("the trace", async () => {
      const [newest] = (await server.get("/v1/traces?limit=1")).data;
      return (await server.get(`/v1/traces/${newest.id}`)).input;
    });
    expect(input[0].content[1].image_url.url).toMatch(/^data:image\/png;base64,.{18}… \(\d+ characters\)$/);
  });
});

test("the facts of a deployment say whether it reads images", async () => {
  expect((await server.get("/props?model=sees")).modalities).toEqual({ vision: true, audio: false });
  expect((await server.get("/props?model=blind")).modalities).toEqual({ vision: false, audio: false });
});

test("a model without a projector names the field of the image", async () => {
  const refused = await ask(messagesWith(dataUrl(first)), { model: "blind" });
  expect(refused.status).toBe(400);
  expect(refused.body.error).toMatchObject({
    param: "/messages/0/content/1/image_url/url",
    message: expect.stringContaining("this model reads no images"),
  });
});

describe("import", () => {
  test.each([
    [
      "qwen2.5vl_merger",
      64,
      'The projector "qwen2.5vl_merger" is not supported. Verk reads images with mlp, idefics3, gemma3',
    ],
    ["mlp", 48, "is for models with embeddings of 48 numbers, but this model's have 64"],
  ])("refuses the projector %s for %i numbers in one sentence", async (kind, outputs, wanted) => {
    const path = makeProjector(made, { kind, outputs });
    const refused = await verk("import", makeModel(made, MODEL), "--name", "other", "--mmproj", path);
    expect([refused.code, refused.err.split("\n").length]).toEqual([1, 2]);
    expect(refused.err).toContain(wanted);
    expect((await verk("list")).out).not.toContain("other");
  });

  test("of a projector alone names the way", async () => {
    const refused = await verk("import", makeProjector(made, { kind: "mlp", outputs: 64 }));
    expect(refused.code).toBe(1);
    expect(refused.err).toContain("verk models import MODEL --mmproj FILE");
  });
});
