import { expect, test } from "bun:test";
import { hiding } from "./hide.ts";

test("a secret is hidden whole, also if the text is cut off inside it", () => {
  const token = `${"S".repeat(900)}${"-and-its-end".repeat(20)}`;
  const hide = hiding({ token }, 500);
  expect(hide(`${token} `.repeat(6))).toBe("[redacted] ".repeat(6));
  expect(hide(`${"x".repeat(490)}${token}`)).not.toContain("S");
});

test("a secret that begins with another secret is hidden whole", () => {
  const hide = hiding({ access_key_id: "verk", secret_access_key: "verk-secret" }, 500);
  expect(hide("no verk-secret for verk")).toBe("no [redacted] for [redacted]");
});

test("a secret is hidden in plain text, in an address, in JSON and inside objects", () => {
  const password = 'p"a ss\n/1';
  const hide = hiding({ service_account: { private_key: password, client_email: "reader@lab.example" } }, 500);
  const told = [password, encodeURIComponent(password), JSON.stringify({ password })].map(hide);
  expect(told).toEqual(["[redacted]", "[redacted]", '{"password":"[redacted]"}']);
});

test("the account and the host stay readable", () => {
  const hide = hiding({ user: "reader", region: "eu-central-1", service_account: { type: "service_account" } }, 500);
  const text = "reader may not read eu-central-1: service_account is missing";
  expect(hide(text)).toBe(text);
});
