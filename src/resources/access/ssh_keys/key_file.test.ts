import { afterAll, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sshKeypair } from "../../../../test/ssh_keypair.ts";
import { isPair, parsePrivateKey, parsePublicKey } from "./key.ts";
import { keyFileOf } from "./key_file.ts";

const dir = mkdtempSync(join(tmpdir(), "verk-keyfile-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test("an Ed25519 key in PKCS#8 becomes a file that our parser reads", async () => {
  const { public_key, private_key } = await sshKeypair();
  const file = keyFileOf(private_key);
  expect(file).toStartWith("-----BEGIN OPENSSH PRIVATE KEY-----\n");
  expect(isPair(parsePublicKey(public_key).key, parsePrivateKey(file))).toBe(true);
  expect(keyFileOf(file)).toBe(file);
});

test.skipIf(Bun.which("ssh-keygen") === null)("ssh-keygen reads it too", async () => {
  const { public_key, private_key } = await sshKeypair();
  const path = join(dir, "key");
  writeFileSync(path, keyFileOf(private_key), { mode: 0o600 });
  const { stdout } = Bun.spawnSync(["ssh-keygen", "-y", "-f", path]);
  expect(stdout.toString().trim().split(" ").slice(0, 2)).toEqual(public_key.split(" ").slice(0, 2));
});

test("keys of other types stay as they are", () => {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const text = privateKey.export({ type: "pkcs8", format: "pem" }) as string;
  expect(keyFileOf(text)).toBe(text);
});
