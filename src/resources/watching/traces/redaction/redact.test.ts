import { expect, test } from "bun:test";
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
  const text = JSON.stringify(redactor.value(value, secrets));
  for (const secret of [key, JSON.stringify('p"ss\nword').slice(1, -1), "project-x"])
    expect(text).not.toContain(secret);
  expect(JSON.parse(text)).toMatchObject({
    messages: [{ role: "user", content: "key [redacted] and [redacted] for [redacted]" }],
    keeps: [null, true, 2, "tiny"],
  });
  const pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/IBAA=\nKCAQEAz7\n-----END RSA PRIVATE KEY-----";
  expect(redactor.text(`a ${pem} b`)).toBe("a [redacted] b");
  expect(redactor.text("Authorization: Bearer abcdefghijklmnop1234")).toBe("Authorization: [redacted]");
});

test("a secret that begins with another one leaves nothing", () => {
  const secrets = secretForms(["password", "password-and-more"]);
  expect(new Redactor().text("it is password-and-more or password", secrets)).toBe("it is [redacted] or [redacted]");
});
