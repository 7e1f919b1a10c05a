// tier: all (whole paths on the executable)
import { afterAll, beforeAll, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { mintSecret, sign, verify } from "../../src/lib/webhooks/signature.ts";
import { startBinary } from "../binary.ts";
import { runVerk, spawnVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { startReceiver } from "../receiver.ts";

const root = tempDir();
const secret = mintSecret();
let server: Awaited<ReturnType<typeof startBinary>>;
beforeAll(async () => {
  server = await startBinary();
});
afterAll(async () => {
  await server.kill();
  for (const dir of [root, server.dir]) rmSync(dir, { recursive: true, force: true });
});

const options = (stdin = "") => ({
  cwd: root,
  env: { VERK_DATA: server.dir, VERK_WEBHOOK_SECRET: secret },
  stdin,
});
const spawn = (args: string[]) => spawnVerk(["webhooks", ...args], options());
const verk = (args: string[], stdin?: string) => runVerk(["webhooks", ...args], options(stdin));

test("an endpoint is made and listed; an address inside is refused", async () => {
  const made = await verk(["create", "https://hooks.example.com/verk", "--event", "job.failed"]);
  expect(made.out).toMatch(/^whsec_[A-Za-z0-9+/]{44}\n$/);
  const [id] = /whk_\w{26}/.exec(made.err) ?? [];
  const listed = await verk(["list"]);
  expect(listed.out).toMatch(new RegExp(`\\n${id}  https://hooks.example.com/verk +enabled +0 +job.failed\\n`));
  expect(listed.out).not.toContain(made.out.trim());
  const inside = await verk(["create", "https://127.0.0.1/"]);
  expect(inside).toMatchObject({ code: 1, err: expect.stringContaining("url: loopback. Use an") });
}, 60_000);

test("a signature is checked: as a request, as a body with flags, with the endpoint's own secret", async () => {
  const body = '{"id":"evt_1"}';
  const timestampSeconds = Math.floor(Date.now() / 1000);
  const signed = (by: string) => sign({ id: "evt_1", timestampSeconds, body: new TextEncoder().encode(body) }, [by]);
  const request = (by: string, sent = body) =>
    `POST / HTTP/1.1\r\nwebhook-id: evt_1\r\nwebhook-timestamp: ${timestampSeconds}\r\nwebhook-signature: ${signed(by)}\r\n\r\n${sent}`;
  expect(await verk(["verify"], request(secret))).toMatchObject({ code: 0, out: "valid: evt_1\n", err: "" });
  expect(await verk(["verify"], request(secret, `${body} `))).toMatchObject({
    code: 1,
    err: expect.stringContaining("no_matching_signature"),
  });
  const flags = ["--id", "evt_1", "--timestamp", `${timestampSeconds}`, "--signature", signed(secret)];
  expect((await verk(["verify", ...flags], body)).code).toBe(0);
  expect((await verk(["verify", ...flags.slice(2)], body)).code).toBe(2);
  const made = JSON.parse((await verk(["create", "https://hooks.example.com/", "--json"])).out);
  expect((await verk(["verify", "--endpoint", made.id], request(made.secret))).code).toBe(0);
  writeFileSync(join(root, "secret"), "hunter2\n");
  const wrong = await verk(["verify", "--secret-file", "secret"], request(secret));
  expect([wrong.code, wrong.err.includes("whsec_"), wrong.err.includes("hunter2")]).toEqual([2, true, false]);
}, 60_000);

test("F21 listen: events and notifications of detection are forwarded at once, signed like deliveries", async () => {
  const receiver = startReceiver(() => new Response(null, { status: 201 }));
  const child = spawn(["listen", "--forward", `${receiver.url}/hook`]);
  try {
    let [out, err] = ["", ""];
    const read = async (stream: ReadableStream<Uint8Array>, take: (text: string) => void) => {
      for await (const chunk of stream) take(new TextDecoder().decode(chunk));
    };
    void read(child.stdout, (text) => (out += text));
    void read(child.stderr, (text) => (err += text));
    await until("the feed to be open", () => err.includes("Forwarding events"), 30_000);
    const { id } = JSON.parse((await verk(["create", "https://hooks.example.com/", "--json"])).out);
    const key = (await Bun.file(join(server.dir, "cli.key")).text()).trim();
    await fetch(`${server.url}/v1/webhooks/${id}/test`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}` },
    });
    const got = await until("the request", () => receiver.received[0], 30_000);
    const told = { headers: got.headers, body: new TextEncoder().encode(got.body) };
    const nowSeconds = Math.floor(Date.now() / 1000);
    expect(verify(told, { secrets: [secret], nowSeconds })).toMatchObject({ valid: true });
    expect([got.method, got.path, got.headers.get("content-type")]).toEqual(["POST", "/hook", "application/json"]);
    expect(Object.keys(JSON.parse(got.body))).toEqual(["id", "type", "created_at", "data"]);
    expect(JSON.parse(got.body)).toMatchObject({ type: "webhook.test", data: { object: "webhook_endpoint", id } });
    await until("its line", () => /webhook\.test {2}evt_\w+ {2}201 {2}\d+ ms\n/.test(out));
    await fetch(`${server.url}/api/detect/batch`, {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: JSON.stringify({ images: [{ image: "no base64" }] }), // over at once
    });
    const notified = await until("the notification", () => receiver.received[1], 30_000);
    expect(JSON.parse(notified.body)).toMatchObject({
      event: "batch.completed",
      data: { status: "completed", totalImages: 1, successCount: 0, failureCount: 1 },
    });
    const mac = createHmac("sha256", secret).update(notified.body).digest("hex");
    expect(notified.headers.get("x-service-signature")).toBe(`sha256=${mac}`);
    await until("its line", () => /batch\.completed {2}evt_\w+ {2}201/.test(out));
    child.kill("SIGINT");
    expect(await child.exited).toBe(130);
    expect(receiver.received).toHaveLength(2);
  } finally {
    child.kill("SIGKILL");
    receiver.stop();
  }
}, 60_000);

test("a feed that was cut off before its first event resumes at its start position", async () => {
  const cursors: (string | null)[] = [];
  const told = { object: "event", id: "evt_2", type: "webhook.test", created_at: "2026-01-01T00:00:00.000Z", data: {} };
  const texts = ["id: evt_1\n\n", `id: evt_1\n\nid: evt_2\ndata: ${JSON.stringify(told)}\n\n`];
  const fake = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      cursors.push(new URL(request.url).searchParams.get("after"));
      return new Response(texts.shift() ?? "", { headers: { "content-type": "text/event-stream" } });
    },
  });
  const child = spawnVerk(["webhooks", "listen", "--url", fake.url.origin, "--json"], {
    cwd: root,
    env: { VERK_API_KEY: "vk_fake" },
  });
  try {
    await until("the third connection", () => cursors.length > 2, 30_000);
    child.kill("SIGINT");
    expect(await child.exited).toBe(130);
    expect(cursors.slice(0, 3)).toEqual(["latest", "evt_1", "evt_2"]);
    expect(JSON.parse(await new Response(child.stdout).text())).toEqual({ object: "webhook_forward", event: told });
  } finally {
    child.kill("SIGKILL");
    await fake.stop(true);
  }
}, 60_000);
