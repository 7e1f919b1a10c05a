import { afterEach, describe, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UsageError } from "../lib/errors.ts";
import { failpoints } from "./failpoint.ts";
import { generateMasterKey } from "./master_key.ts";
import { createSecretBox, openSecretBox, SecretError } from "./secrets.ts";

const scratch = () => mkdtempSync(join(tmpdir(), "verk-secrets-"));
const caught = (fn: () => unknown): unknown => {
  try {
    fn();
  } catch (error) {
    return error;
  }
  throw new Error("it did not throw");
};
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
afterEach(() => {
  delete failpoints.hit;
});

describe("a box", () => {
  const box = createSecretBox(generateMasterKey());

  test.each(["", "hunter2", "日本 \0 ünï", "x".repeat(100_000)])("gives back what it sealed (%#)", (plain) => {
    expect(text(box.open(box.seal(plain, "ws_1/NAME"), "ws_1/NAME"))).toBe(plain);
  });

  test("never seals the same way twice, and shows neither content nor key", () => {
    const [a, b] = [box.seal("hunter2", "x"), box.seal("hunter2", "x")];
    expect(a).not.toBe(b);
    expect(a.split(".")[2]).not.toBe(b.split(".")[2]);
    expect(a).toMatch(/^v1\.[0-9a-f]{8}\.[\w-]+\.[\w-]+$/);
  });

  test("derives a key for each label, the same after a restart and another under another master key", () => {
    const master = generateMasterKey();
    const [a, again, other] = [createSecretBox(master), createSecretBox(master), createSecretBox(generateMasterKey())];
    expect(a.derive("urls")).toEqual(again.derive("urls"));
    expect(a.derive("urls")).not.toEqual(a.derive("url"));
    expect(a.derive("urls")).not.toEqual(other.derive("urls"));
    expect(a.derive("urls")).toHaveLength(32);
  });

  test("does not open what was sealed for another place", () => {
    const error = caught(() => box.open(box.seal("hunter2", "ws_1/A"), "ws_2/A")) as SecretError;
    expect(error).toBeInstanceOf(SecretError);
    expect(error.reason).toBe("not_authentic");
    expect(`${error.message}${error.stack}`).not.toContain("hunter2");
  });

  test("names the key when it is another one", () => {
    const error = caught(() => createSecretBox(generateMasterKey()).open(box.seal("s", "x"), "x")) as SecretError;
    expect(error.reason).toBe("wrong_key");
    expect(error.message).toContain(box.keyId);
  });

  test("refuses every single changed byte and every cut", () => {
    const sealed = box.seal("secret", "x");
    for (let i = 0; i < sealed.length; i++) {
      const changed = sealed.slice(0, i) + (sealed[i] === "A" ? "B" : "A") + sealed.slice(i + 1);
      expect(caught(() => box.open(changed, "x"))).toBeInstanceOf(SecretError);
      expect(caught(() => box.open(sealed.slice(0, i), "x"))).toBeInstanceOf(SecretError);
    }
    for (const junk of ["", "v1", "v1...", "v2.a.b.c", `${sealed}.x`])
      expect(caught(() => box.open(junk, "x"))).toBeInstanceOf(SecretError);
  });

  test("refuses the content of one secret under the data key of another", () => {
    const [a, b] = [box.seal("a", "x").split("."), box.seal("b", "x").split(".")];
    expect(caught(() => box.open([...a.slice(0, 3), b[3]].join("."), "x"))).toBeInstanceOf(SecretError);
  });

  test("rewraps for a new master key without touching the content", () => {
    const newMaster = generateMasterKey();
    const sealed = box.seal("hunter2", "x");
    const again = box.rewrap(sealed, newMaster);
    expect(again.split(".")[3]).toBe(sealed.split(".")[3]!);
    expect(text(createSecretBox(newMaster).open(again, "x"))).toBe("hunter2");
    expect(caught(() => box.open(again, "x"))).toBeInstanceOf(SecretError);
  });
});

describe("the master key file", () => {
  const none = () => undefined;

  test("is made on the first start, 0600, alone in its directory, and found on the next", () => {
    const file = join(scratch(), "sub/master.key");
    const sealed = openSecretBox({ file, sealed: none }).seal("s", "x");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(join(file, ".."))).toEqual(["master.key"]);
    expect(text(openSecretBox({ file, sealed: () => sealed }).open(sealed, "x"))).toBe("s");
  });

  test("missing while the database holds secrets stops the start and says how to restore", () => {
    const file = join(scratch(), "master.key");
    const sealed = openSecretBox({ file, sealed: none }).seal("s", "x");
    rmSync(file);
    const error = caught(() => openSecretBox({ file, sealed: () => sealed }));
    expect(error).toBeInstanceOf(UsageError);
    expect((error as Error).message).toMatch(/Restore that file from your backup/);
    expect((error as Error).message).toContain(file);
    expect(readdirSync(join(file, ".."))).toEqual([]);
  });

  test("of another database stops the start and names both keys", () => {
    const file = join(scratch(), "master.key");
    const theirs = createSecretBox(generateMasterKey());
    const ours = openSecretBox({ file, sealed: none });
    const error = caught(() => openSecretBox({ file, sealed: () => theirs.seal("s", "x") })) as Error;
    expect(error).toBeInstanceOf(UsageError);
    for (const part of [file, ours.keyId, theirs.keyId]) expect(error.message).toContain(part);
  });

  test.each([0o640, 0o604, 0o644, 0o660, 0o601])("with mode %o is refused with the chmod that helps", (mode) => {
    const file = join(scratch(), "master.key");
    openSecretBox({ file, sealed: none });
    chmodSync(file, mode);
    const error = caught(() => openSecretBox({ file, sealed: none }));
    expect(error).toBeInstanceOf(UsageError);
    expect((error as Error).message).toContain(`chmod 600 ${file}`);
  });

  test("damaged is refused without a word of its content", () => {
    const file = join(scratch(), "master.key");
    writeFileSync(file, "deadbeefhunter2", { mode: 0o600 });
    const error = caught(() => openSecretBox({ file, sealed: none })) as Error;
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).not.toContain("hunter2");
  });

  test("made by another process in the same moment is taken over, not replaced", () => {
    const file = join(scratch(), "master.key");
    const theirs = "ab".repeat(32);
    failpoints.hit = (at) => at === "secrets.before_link" && writeFileSync(file, theirs, { mode: 0o600 });
    openSecretBox({ file, sealed: none });
    expect(readFileSync(file, "utf8")).toBe(theirs);
    expect(readdirSync(join(file, ".."))).toEqual(["master.key"]);
  });

  test.each(["secrets.before_link", "secrets.after_link"])("a crash at %s leaves no half key", (point) => {
    const file = join(scratch(), "master.key");
    failpoints.hit = (at) => {
      if (at === point) throw new Error("crash");
    };
    caught(() => openSecretBox({ file, sealed: none }));
    delete failpoints.hit;
    expect(() => openSecretBox({ file, sealed: none })).not.toThrow();
    expect(readFileSync(file, "utf8")).toMatch(/^[0-9a-f]{64}\n$/);
  });
});
