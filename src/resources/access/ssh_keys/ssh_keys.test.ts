import { afterAll, expect, test } from "bun:test";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { testApp } from "../../../../test/harness.ts";
import { isPair, parsePrivateKey, parsePublicKey } from "./key.ts";
import * as sshKeys from "./service.ts";

const app = testApp();
afterAll(async () => {
  await app.close();
  app.remove();
});

const HEAD = Buffer.from("0000000b7373682d6564323535313900000020", "hex"); // "ssh-ed25519", then 32 bytes
const lineOf = (key: KeyObject) =>
  `ssh-ed25519 ${Buffer.concat([HEAD, key.export({ format: "der", type: "spki" }).subarray(-32)]).toString("base64")}`;
function pair(passphrase?: string) {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const lock = passphrase === undefined ? {} : { cipher: "aes-256-cbc", passphrase };
  const pem = privateKey.export({ format: "pem", type: "pkcs8", ...lock }) as string;
  return { public_key: `${lineOf(publicKey)} me@home`, private_key: pem };
}
const create = (body: unknown, options = {}) => app.call("POST", "/v1/ssh_keys", body, options);

test("a pair is kept and shown without its private half", async () => {
  const keys = pair();
  const { status, body } = await create({ name: "cluster", provider: "local", metadata: { team: "a" }, ...keys });
  expect(status).toBe(201);
  expect(body).toEqual({
    object: "ssh_key",
    id: expect.stringMatching(/^ssh_/),
    name: "cluster",
    public_key: keys.public_key,
    fingerprint: expect.stringMatching(/^SHA256:[A-Za-z0-9+/]{43}$/),
    type: "ssh-ed25519",
    provider: "local",
    metadata: { team: "a" },
    created_at: expect.stringMatching(/Z$/),
  });
  expect((await app.call("GET", `/v1/ssh_keys/${body.id}`)).body).toEqual(body);
  expect((await app.call("GET", "/v1/ssh_keys")).body.data).toContainEqual(body);
  const file = sshKeys.revealPrivateKey(app.ctx, app.workspaceA, body.id);
  expect(isPair(parsePublicKey(keys.public_key).key, parsePrivateKey(file))).toBe(true);
});

test("another workspace sees nothing of it and may use the same name", async () => {
  const { body } = await create({ name: "ours", ...pair() });
  for (const method of ["GET", "DELETE"])
    expect((await app.call(method, `/v1/ssh_keys/${body.id}`, undefined, { key: app.keyB })).status).toBe(404);
  expect((await create({ name: "ours", ...pair() }, { key: app.keyB })).status).toBe(201);
});

test("a name is taken once per workspace and free again after deletion", async () => {
  const { body } = await create({ name: "once", ...pair() });
  const again = await create({ name: "once", ...pair() });
  expect([again.status, again.body.error.code, again.body.error.param]).toEqual([400, "name_taken", "/name"]);
  const deleted = await app.call("DELETE", `/v1/ssh_keys/${body.id}`);
  expect(deleted.body).toEqual({ id: body.id, object: "ssh_key", deleted: true });
  expect((await app.call("GET", `/v1/ssh_keys/${body.id}`)).status).toBe(404);
  expect((await create({ name: "once", ...pair() })).status).toBe(201);
  const { data } = (await app.call("GET", "/v1/events?limit=100")).body;
  expect(data.map((event: { type: string }) => event.type)).toEqual(
    expect.arrayContaining(["ssh_key.created", "ssh_key.deleted"]),
  );
});

test("a retry with the same Idempotency-Key gives the first answer", async () => {
  const request = { name: "retried", ...pair() };
  const headers = { "idempotency-key": "ssh-1" };
  const first = await create(request, { headers });
  const second = await create(request, { headers });
  expect([second.status, second.body]).toEqual([201, first.body]);
});

test.each([
  [
    "halves of different pairs",
    () => ({ ...pair(), private_key: pair().private_key }),
    "/private_key",
    "does not belong",
  ],
  ["a passphrase", () => pair("sesame"), "/private_key", "passphrase"],
  ["no private key at all", () => ({ public_key: pair().public_key }), "/private_key", ""],
  ["text that is no key", () => ({ ...pair(), private_key: "hello" }), "/private_key", "must be a private key"],
  [
    "the private key in place of the public",
    () => ({ ...pair(), public_key: pair().private_key }),
    "/public_key",
    "one line",
  ],
])("%s is a 422 that names the field", async (_what, body, param, message) => {
  const answer = await create({ name: "refused", ...body() });
  expect([answer.status, answer.body.error.param]).toEqual([422, param]);
  expect(answer.body.error.message).toContain(message);
});

test("the private key appears in no file, log line, event or answer", async () => {
  const keys = pair();
  const secret = keys.private_key.split("\n")[1] ?? "";
  expect(secret.length).toBeGreaterThan(40);
  const answers = [
    await create({ name: "planted", ...keys }, { headers: { "idempotency-key": "ssh-2" } }),
    await create({ name: "planted", ...keys }),
    await create({
      name: "bent",
      ...keys,
      private_key: keys.private_key.replace("PRIVATE KEY-----\n", "PRIVATE KEY-----\n!"),
    }),
    await create({ name: "swapped", ...keys, public_key: keys.private_key }),
    await app.call("GET", "/v1/ssh_keys"),
    await app.call("GET", "/v1/events?limit=100"),
  ];
  expect(answers.map((answer) => answer.status)).toEqual([201, 400, 422, 422, 200, 200]);
  expect(JSON.stringify(answers)).not.toContain(secret);
  expect(app.log.join("\n")).not.toContain(secret);
  for (const name of ["verk.db", "verk.db-wal"]) expect(readFileSync(join(app.dir, name)).includes(secret)).toBe(false);
});
