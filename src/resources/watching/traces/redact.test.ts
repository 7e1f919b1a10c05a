import { expect, test } from "bun:test";
import { randomFor } from "../../../../test/sweep.ts";
import { Redactor, secretForms } from "./redact.ts";

test("credentials and the values of secrets are removed without a pattern", () => {
  const redactor = new Redactor(["\\bproject-\\w+"]);
  const key = `vk_${"Ab3".repeat(14)}x`;
  const secrets = secretForms(['p"ss\nword', "tiny"]);
  const value = {
    messages: [{ role: "user", content: `key ${key} and p"ss\nword for project-x` }],
    calls: [{ arguments: JSON.stringify({ password: 'p"ss\nword' }) }],
    [`header ${key}`]: 1,
    keeps: [null, true, 2, "tiny"],
  };
  const text = JSON.stringify(redactor.cleaner(secrets)(value));
  for (const secret of [key, JSON.stringify('p"ss\nword').slice(1, -1), "project-x"])
    expect(text).not.toContain(secret);
  expect(JSON.parse(text)).toMatchObject({
    messages: [{ role: "user", content: "key [redacted] and [redacted] for [redacted]" }],
    keeps: [null, true, 2, "tiny"],
  });
  const pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/IBAA=\nKCAQEAz7\n-----END RSA PRIVATE KEY-----";
  const clean = redactor.cleaner();
  expect(clean(`a ${pem} b`)).toBe("a [redacted] b");
  expect(clean("Authorization: Bearer abcdefghijklmnop1234")).toBe("Authorization: [redacted]");
});

test("a secret that begins with another one leaves nothing", () => {
  const secrets = secretForms(["password", "password-and-more"]);
  const clean = new Redactor().cleaner(secrets);
  expect(clean("it is password-and-more or password")).toBe("it is [redacted] or [redacted]");
});

test("what patterns have not read within their work is removed, and the next trace has its own", () => {
  const random = randomFor("letters");
  const letters = (length: number) => Array.from({ length }, () => (random() < 0.5 ? "a" : "b")).join("");
  const redactor = new Redactor(["a[ab]{400}[cd]"]);
  const long = letters(100_000);
  const short = letters(1_000);
  for (let trace = 0; trace < 3; trace++) {
    const clean = redactor.cleaner();
    expect(clean(["a text", long, short])).toEqual(["a text", "[redacted]", "[redacted]"]);
    expect(redactor.cleaner()(short)).toBe(short);
  }
});
