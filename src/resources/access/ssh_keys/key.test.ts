import { afterAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isPair, parsePrivateKey, parsePublicKey } from "./key.ts";

/** Made for these tests alone; it opens nothing. */
const TEST_ONLY = {
  public: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDTJGT8SqB+nK2gvy3X7Q75aLQjS8qPyTqxttP1aPRv2 test-only",
  fingerprint: "SHA256:HwlAoSMW8wB6nk0vdCubflE1h3XIY6UDfAMiHOgTpEM",
  private: `-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACA0yRk/EqgfpytoL8t1+0O+Wi0I0vKj8k6sbbT9Wj0b9gAAAJA4BXZeOAV2
XgAAAAtzc2gtZWQyNTUxOQAAACA0yRk/EqgfpytoL8t1+0O+Wi0I0vKj8k6sbbT9Wj0b9g
AAAEBSGiJIBZenuXG+0fNzwm3JGjtx8zynMtuAQfOzpVUQeTTJGT8SqB+nK2gvy3X7Q75a
LQjS8qPyTqxttP1aPRv2AAAACXRlc3Qtb25seQECAwQ=
-----END OPENSSH PRIVATE KEY-----
`,
};

const dir = mkdtempSync(join(tmpdir(), "verk-ssh-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const keygen = Bun.which("ssh-keygen");

let made = 0;
function sshKeygen(...args: string[]) {
  const file = join(dir, `key${made++}`);
  const run = (words: string[]) => {
    const { success, stdout, stderr } = Bun.spawnSync([keygen ?? "ssh-keygen", ...words]);
    if (!success) throw new Error(stderr.toString());
    return stdout.toString();
  };
  run(["-q", "-N", "", "-C", "a comment", "-f", file, ...args]);
  const fingerprint = run(["-lf", `${file}.pub`]).split(" ")[1];
  return { public: readFileSync(`${file}.pub`, "utf8"), private: readFileSync(file, "utf8"), fingerprint };
}

describe.skipIf(keygen === null)("keys made by ssh-keygen", () => {
  test.each([
    ["ssh-ed25519", ["-t", "ed25519"]],
    ["ssh-rsa", ["-t", "rsa", "-b", "2048"]],
    ["ssh-rsa", ["-t", "rsa", "-b", "2048", "-m", "PEM"]],
    ["ssh-rsa", ["-t", "rsa", "-b", "2048", "-m", "PKCS8"]],
    ["ecdsa-sha2-nistp256", ["-t", "ecdsa", "-b", "256"]],
    ["ecdsa-sha2-nistp384", ["-t", "ecdsa", "-b", "384", "-m", "PEM"]],
    ["ecdsa-sha2-nistp521", ["-t", "ecdsa", "-b", "521"]],
    ["ecdsa-sha2-nistp521", ["-t", "ecdsa", "-b", "521", "-m", "PKCS8"]],
  ])("%s from ssh-keygen %p is read, named and proven", (type, args) => {
    const key = sshKeygen(...args);
    const parsed = parsePublicKey(key.public);
    expect(parsed.type).toBe(type);
    expect(parsed.fingerprint).toBe(key.fingerprint!);
    expect(parsed.line).toBe(key.public.trim());
    expect(isPair(parsed.key, parsePrivateKey(key.private))).toBe(true);
  });

  test.each([[[]], [["-m", "PEM"]], [["-m", "PKCS8"]]])("a passphrase is named as the trouble (%p)", (format) => {
    const file = join(dir, `locked${made++}`);
    Bun.spawnSync([keygen ?? "", "-q", "-t", "rsa", "-b", "2048", "-N", "open sesame", "-f", file, ...format]);
    expect(() => parsePrivateKey(readFileSync(file, "utf8"))).toThrow("passphrase");
  });

  test("an RSA key of 1024 bits is refused in both halves", () => {
    const key = sshKeygen("-t", "rsa", "-b", "1024");
    expect(() => parsePublicKey(key.public)).toThrow("1024 bits");
    expect(() => parsePrivateKey(key.private)).toThrow("1024 bits");
  });
});

test("a known key keeps its type, fingerprint and comment", () => {
  const parsed = parsePublicKey(`  ${TEST_ONLY.public}\n`);
  expect(parsed).toMatchObject({ type: "ssh-ed25519", fingerprint: TEST_ONLY.fingerprint, line: TEST_ONLY.public });
  expect(isPair(parsed.key, parsePrivateKey(TEST_ONLY.private))).toBe(true);
  expect(isPair(parsed.key, parsePrivateKey(TEST_ONLY.private.replaceAll("\n", "\r\n")))).toBe(true);
});

test("a private key whose file claims another's public half is not a pair", () => {
  const other = ed25519Line(generateKeyPairSync("ed25519").publicKey);
  const forged = reveal(TEST_ONLY.private).replaceAll(blobOf(TEST_ONLY.public), blobOf(other));
  const text = `-----BEGIN OPENSSH PRIVATE KEY-----\n${Buffer.from(forged, "latin1").toString("base64")}\n-----END OPENSSH PRIVATE KEY-----\n`;
  expect(isPair(parsePublicKey(other).key, parsePrivateKey(text))).toBe(false);
});

test("keys of different kinds are not a pair", () => {
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
  expect(isPair(parsePublicKey(TEST_ONLY.public).key, rsa)).toBe(false);
});

test.each([
  ["nothing", ""],
  ["a private key", TEST_ONLY.private],
  ["two lines", `${TEST_ONLY.public}\n${TEST_ONLY.public}`],
  ["a comment with a carriage return", `${TEST_ONLY.public}\rssh-rsa AAAA`],
  ["options before the type", `no-pty ${TEST_ONLY.public}`],
  ["another type's name", TEST_ONLY.public.replace("ssh-ed25519", "ssh-rsa")],
  ["a cut blob", TEST_ONLY.public.replace(/.{6} test-only/, "")],
  ["a longer blob", TEST_ONLY.public.replace(" test-only", "AAAA")],
  ["a certificate", TEST_ONLY.public.replace("ssh-ed25519", "ssh-ed25519-cert-v01@openssh.com")],
])("a public key that is %s is refused", (_what, text) => {
  expect(() => parsePublicKey(text)).toThrow(/^(must be one line|is damaged)/);
});

test("however a private key is cut or bent, the error is ours and quotes nothing of it", () => {
  const body = reveal(TEST_ONLY.private);
  for (let at = 0; at < body.length; at++) {
    const bent = Buffer.from(body, "latin1");
    bent[at] = (bent[at] ?? 0) ^ 0x80;
    for (const bytes of [bent, bent.subarray(0, at)]) {
      const text = `-----BEGIN OPENSSH PRIVATE KEY-----\n${bytes.toString("base64")}\n-----END OPENSSH PRIVATE KEY-----`;
      try {
        parsePrivateKey(text); // a bent public claim or comment still reads; the signature decides
      } catch (error) {
        expect(error).toMatchObject({ name: "SshKeyError", part: "private_key" });
        expect((error as Error).cause).toBeUndefined();
        expect((error as Error).message).toMatch(/^(is damaged|must be|is protected|contains several)/);
      }
    }
  }
});

const reveal = (pem: string) => Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ""), "base64").toString("latin1");
const blobOf = (line: string) =>
  Buffer.from(line.split(" ")[1] ?? "", "base64")
    .subarray(-32)
    .toString("latin1");
function ed25519Line(key: KeyObject): string {
  const head = Buffer.from(TEST_ONLY.public.split(" ")[1] ?? "", "base64").subarray(0, -32);
  const point = key.export({ format: "der", type: "spki" }).subarray(-32);
  return `ssh-ed25519 ${Buffer.concat([head, point]).toString("base64")}`;
}
