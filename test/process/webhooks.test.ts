import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { Webhook } from "standardwebhooks";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { violations } from "../fault/invariants.ts";
import { tempDir, until } from "../harness.ts";
import { startTlsReceiver, TLS_FLAGS } from "../webhooks_kit.ts";

const ROUNDS = 4;
const dir = tempDir();
const receiver = startTlsReceiver();
afterAll(async () => {
  await receiver.stop();
  rmSync(dir, { recursive: true, force: true });
});

const env = { VERK_NETWORK__ALLOW: "127.0.0.1", VERK_NETWORK__CA_FILE: TLS_FLAGS["network.ca_file"] };
type Server = Awaited<ReturnType<typeof startBinary>>;

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the server answered
async function post({ url }: Server, key: string, path: string, body: unknown): Promise<any> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const answer = await fetch(`${url}/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return await answer.json();
}

test("killed again and again, a server delivers every event it has acknowledged, signed, to every endpoint", async () => {
  let server = await startBinary({ dir, env });
  const { key } = await makeKey(dir, "--scope", "*");
  const dataset = (await post(server, key, "/datasets", { name: "stream", format: "prompt" })).id;
  const secrets = new Map<string, string>();
  for (const path of ["/one", "/two"])
    secrets.set(path, (await post(server, key, "/webhooks", { url: receiver.url + path })).secret);
  const acknowledged: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const before = receiver.got.length;
    const appending = (async () => {
      for (;;)
        acknowledged.push((await post(server, key, `/datasets/${dataset}/rows`, { rows: [{ prompt: "x" }] })).batch_id);
    })().catch(() => {}); // the server died
    await until("deliveries under way", () => receiver.got.length > before + 20 + round);
    await server.kill("SIGKILL");
    await appending;
    server = await startBinary({ dir, env });
  }
  const arrived = () => new Set(receiver.got.map(({ path, body }) => `${JSON.parse(body).data.batch_id} ${path}`));
  const expected = acknowledged.flatMap((batch) => [...secrets.keys()].map((path) => `${batch} ${path}`));
  await until("everything acknowledged", () => arrived().isSupersetOf(new Set(expected)), 60_000);
  for (const { headers, body, path } of receiver.got) {
    const verified = new Webhook(secrets.get(path)!).verify(body, headers.toJSON());
    expect(verified).toMatchObject({ id: headers.get("webhook-id")! });
  }
  const bodies = Map.groupBy(receiver.got, ({ headers }) => headers.get("webhook-id")!);
  for (const same of bodies.values()) expect(new Set(same.map(({ body }) => body)).size).toBe(1);
  await server.kill("SIGTERM");
  expect(violations(dir)).toEqual([]);
}, 180_000);
