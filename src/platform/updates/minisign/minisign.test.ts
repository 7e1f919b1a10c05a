import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { IS_FULL } from "../../../../test/sweep.ts";
import {
  generateKey,
  keyName,
  publicKeyFile,
  publicKeyLine,
  readPublicKey,
  readSecretKey,
  secretKeyFile,
} from "./keys.ts";
import { isSigned, readSignature, sign } from "./signature.ts";

const dir = mkdtempSync(join(tmpdir(), "verk-minisign-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const content = new TextEncoder().encode("content\n");
const key = generateKey();

describe("signatures", () => {
  test("a signature is valid for its content, its comment and its key alone", () => {
    const signature = readSignature(sign(content, key, "verk 1.2.3"));
    expect(signature).toMatchObject({ prehashed: true, comment: "verk 1.2.3" });
    expect(isSigned(content, signature, [generateKey(), key])).toBe(true);
    expect(isSigned(new Uint8Array([...content, 0]), signature, [key])).toBe(false);
    expect(isSigned(content, { ...signature, comment: "verk 1.2.4" }, [key])).toBe(false);
    expect(isSigned(content, signature, [generateKey()])).toBe(false);
    expect(isSigned(content, signature, [{ ...generateKey(), id: key.id }])).toBe(false);
    expect(isSigned(content, signature, [])).toBe(false);
  });

  test("every flipped bit of the signed part is refused", () => {
    const text = sign(content, key, "c");
    const signature = readSignature(text);
    for (let bit = 0; bit < 64 * 8; bit++) {
      const bytes = Buffer.from(signature.bytes);
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(isSigned(content, { ...signature, bytes }, [key])).toBe(false);
    }
  });

  test.each([
    ["an empty text", ""],
    ["a signature without its last line", sign(content, key, "c").split("\n").slice(0, 3).join("\n")],
    ["a further line", `${sign(content, key, "c")}more\n`],
    ["another algorithm", sign(content, key, "c").replace(/\nRU/, "\nRX")],
    ["text that is not base64", sign(content, key, "c").replace(/\nRU./, "\nRU*")],
  ])("%s is not a signature", (_, text) => expect(() => readSignature(text)).toThrow("not a signature"));
});

describe("keys", () => {
  test("a key is read back from its files", () => {
    expect(readSecretKey(secretKeyFile(key)).bytes).toEqual(key.bytes);
    expect(readPublicKey(publicKeyFile(key)).id).toEqual(key.id);
    expect(readPublicKey(publicKeyLine(key)).bytes).toEqual(key.bytes);
    expect(() => readPublicKey("RWabc")).toThrow("not a public key");
    expect(() => readSecretKey(publicKeyFile(key))).toThrow("not a secret key");
    const damaged = Buffer.from(secretKeyFile(key).split("\n")[1] ?? "", "base64");
    damaged[100] = (damaged[100] ?? 0) ^ 1;
    expect(() => readSecretKey(`c\n${damaged.toString("base64")}`)).toThrow("damaged");
  });
});

const real = Bun.which("minisign");
const minisign = (args: string[], input = "") => {
  const run = Bun.spawnSync([real ?? "", ...args], { cwd: dir, stdin: new TextEncoder().encode(input) });
  return { code: run.exitCode, text: run.stdout.toString() + run.stderr.toString() };
};

describe.skipIf(real === null)("Debian's minisign (skipped where the program is missing)", () => {
  test("it accepts our keys and signatures", () => {
    writeFileSync(join(dir, "file"), content);
    writeFileSync(join(dir, "file.minisig"), sign(content, key, "verk 1.2.3"));
    writeFileSync(join(dir, "our.pub"), publicKeyFile(key));
    const checked = minisign(["-V", "-p", "our.pub", "-m", "file"]);
    expect(checked).toMatchObject({ code: 0, text: expect.stringContaining("verk 1.2.3") });
    expect(minisign(["-V", "-P", publicKeyLine(key), "-m", "file"]).code).toBe(0);
    writeFileSync(join(dir, "open.key"), secretKeyFile(key));
    expect(minisign(["-S", "-s", "open.key", "-m", "file"])).toMatchObject({ code: 0 });
    expect(isSigned(content, readSignature(readFileSync(join(dir, "file.minisig"), "utf8")), [key])).toBe(true);
  });

  // scrypt takes seconds and 1 GiB each time
  test.skipIf(!IS_FULL)("it opens our secret key with its passphrase", () => {
    writeFileSync(join(dir, "file"), content);
    writeFileSync(join(dir, "our.key"), secretKeyFile(key, "four words of a phrase"));
    expect(minisign(["-S", "-s", "our.key", "-m", "file"], "four words of a phrase\n")).toMatchObject({ code: 0 });
    expect(isSigned(content, readSignature(readFileSync(join(dir, "file.minisig"), "utf8")), [key])).toBe(true);
  });

  test.each([
    ["prehashed", [] as string[]],
    ["legacy", ["-l"]],
  ])("we accept its keys and its %s signatures", (kind, flags) => {
    writeFileSync(join(dir, "file"), content);
    expect(minisign(["-G", "-f", "-W", "-p", "its.pub", "-s", "its.key"])).toMatchObject({ code: 0 });
    expect(minisign(["-S", ...flags, "-s", "its.key", "-m", "file", "-t", "its comment"]).code).toBe(0);
    const its = readPublicKey(readFileSync(join(dir, "its.pub"), "utf8"));
    // Debian's program writes the number without leading zeros.
    expect(readFileSync(join(dir, "its.pub"), "utf8")).toContain(keyName(its.id).replace(/^0+/, ""));
    const signature = readSignature(readFileSync(join(dir, "file.minisig"), "utf8"));
    expect(signature).toMatchObject({ prehashed: kind === "prehashed", comment: "its comment" });
    expect(isSigned(content, signature, [its])).toBe(true);
    expect(readSecretKey(readFileSync(join(dir, "its.key"), "utf8")).bytes).toEqual(its.bytes);
  });

  test.skipIf(!IS_FULL)("we open its secret key with the passphrase, and not with another", () => {
    const made = minisign(["-G", "-f", "-p", "sealed.pub", "-s", "sealed.key"], "secret words\nsecret words\n");
    expect(made).toMatchObject({ code: 0 });
    const text = readFileSync(join(dir, "sealed.key"), "utf8");
    const its = readPublicKey(readFileSync(join(dir, "sealed.pub"), "utf8"));
    expect(readSecretKey(text, "secret words").bytes).toEqual(its.bytes);
    expect(() => readSecretKey(text)).toThrow("--passphrase-file");
    const damaged = Buffer.from(text.split("\n")[1] ?? "", "base64");
    damaged.writeBigUInt64LE(32_768n, 38); // cheaper limits give another stream, as another passphrase does
    damaged.writeBigUInt64LE(2n ** 24n, 46);
    expect(() => readSecretKey(damaged.toString("base64"), "secret words")).toThrow("does not open");
  });
});
