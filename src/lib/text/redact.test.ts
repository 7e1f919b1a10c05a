import { describe, expect, test } from "bun:test";
import { cpuMsOf } from "../../../test/cost.ts";
import { isSecretName, redactText, redactValue } from "./redact.ts";

const KEY = `vk_${"aB3dE6gH9k".repeat(4)}xyz`;

test.each([
  ..."authorization Authorization x-api-key X-API-Key apiKey api_key key secret webhook_secret token access_token".split(
    " ",
  ),
  ..."refreshToken password db_password private_key PRIVATE_KEY cookie set-cookie Set-Cookie client_secret master_key".split(
    " ",
  ),
])("%s names a secret", (name) => expect(isSecretName(name)).toBe(true));

test.each([
  ..."key_id api_key_id name tokens_per_second num_token_ids secret_id idempotency_key_hash cookie_count".split(" "),
])("%s names no secret", (name) => expect(isSecretName(name)).toBe(false));

test.each([
  ["an API key", `key ${KEY} was used`, KEY.slice(3, 15)],
  ["a webhook secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9"],
  ["a bearer token", "Authorization: Bearer abcdefghij.klm", "abcdefghij"],
  ["a bearer token in capitals", "AUTHORIZATION: BEARER ABCDEFGHIJ", "ABCDEFGHIJ"],
  ["basic credentials", "authorization=Basic dXNlcjpwYXNz", "dXNlcjpw"],
  ["a PEM key", "x -----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY----- y", "MIIabc"],
  ["a PEM key that was cut", "-----BEGIN PRIVATE KEY-----\nMIIabc\nMII", "MII"],
  ["a password in a URL", "postgres://bob:hunter2@db:5432/x", "hunter2"],
  ["a user in a URL", "https://hunter2token@host/x", "hunter2token"],
  ["a signature", "https://h/x?a=1&X-Amz-Signature=hunter2&b=2", "hunter2"],
  ["a short signature", "/files?sig=hunter2&expires=1", "hunter2"],
  ["a token at the start", "token=hunter2", "hunter2"],
  ["JSON inside a string", '{"password": "hunter2", "a": 1}', "hunter2"],
  ["JSON inside JSON", '"{\\"client_secret\\":\\"hunter2\\"}"', "hunter2"],
  ["a header line", "GET / HTTP/1.1\nx-api-key: hunter2\nhost: a", "hunter2"],
  ["a cookie line", "Cookie: a=hunter2", "hunter2"],
  ["a hub token", "hf_abcdefghijklmnopqrstuvwxyz", "abcdefgh"],
  ["a JSON web token", "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2QT4", "SflKx"],
] as const)("%s is hidden in text", (_name, text, leak) => {
  expect(redactText(text)).toContain("[redacted]");
  expect(redactText(text)).not.toContain(leak);
});

test.each([
  "listening on http://127.0.0.1:7070",
  "key vk_abcdefgh was revoked",
  "max_tokens=512 took 3 ms",
  "https://host/path?limit=20&after=ds_01&x=1",
  "mail to a@b.example about ://",
  '{"status": "ok", "num_tokens": 12}',
  "Basic authentication is not offered",
  "error: file not found: /x/y",
])("%p stays unchanged", (text) => expect(redactText(text)).toBe(text));

test.each([
  "\n",
  "-eyJ",
  " eyJabc",
  "a://",
  "bearer ",
  "basic ",
  '"a":',
  '\\"',
  "key: ",
  "vk_",
  "-----BEGIN PRIVATE KEY-----",
  "&sig=",
  "a:// x@ ",
])("64 KiB of %p do not block the server", async (part) => {
  const text = `cookie: ${part.repeat(65_536 / part.length)} ey: = "`;
  expect(await cpuMsOf(() => redactText(text))).toBeLessThan(2_000);
});

describe("values", () => {
  test("secrets are hidden by name and by shape at any depth, and counts stay", () => {
    const shown = JSON.stringify(
      redactValue({
        max_tokens: 5,
        token: 7,
        headers: new Headers({ Authorization: "hunter2", accept: "*/*" }),
        list: [{ name: "X-Api-Key", value: "hunter2" }, ["cookie", "hunter2"], new Map([["password", "hunter2"]])],
        deep: { [KEY]: { note: `used ${KEY}` } },
        secrets: { A: "hunter2" },
        url: new URL("https://a:hunter2@h/?sig=hunter2"),
        pin: { password: 12345678 },
      }),
    );
    expect(shown).not.toContain("hunter2");
    expect(shown).not.toContain(KEY);
    expect(shown).not.toContain("12345678");
    expect(shown).toContain('"max_tokens":5');
    expect(shown).toContain("*/*");
  });

  test("an error keeps its name, stack and causes, without their secrets", () => {
    const cause = Object.assign(new TypeError(`bad ${KEY}`), { code: "E1", config: { password: "hunter2" } });
    const error = new AggregateError([new Error("token=hunter2")], "Bearer hunter2hunter2", { cause });
    const shown = redactValue({ error }) as { error: { name: string; stack: string; cause: { code: string } } };
    expect(shown.error.name).toBe("AggregateError");
    expect(shown.error.stack).toContain("redact.test.ts");
    expect(shown.error.cause.code).toBe("E1");
    expect(JSON.stringify(shown)).not.toMatch(/hunter2|aB3dE6gH9k/);
  });

  test("cycles, throwing getters, proxies, bigints and huge values cause no failure", () => {
    const cyclic: Record<string, unknown> = {
      n: 10n,
      s: Symbol("x"),
      f: () => 1,
      u: undefined,
      d: new Date(Number.NaN),
    };
    cyclic["self"] = cyclic;
    Object.defineProperty(cyclic, "trap", { enumerable: true, get: () => JSON.parse("{") });
    cyclic["proxy"] = new Proxy({}, { ownKeys: () => JSON.parse("{"), get: () => JSON.parse("{") });
    cyclic["list"] = new Array(1000).fill(1);
    cyclic["text"] = "x".repeat(1_000_000);
    cyclic["bytes"] = new Uint8Array(9);
    cyclic["__proto__x"] = JSON.parse('{"__proto__": {"a": 1}}');
    let deep: unknown = 1;
    for (let i = 0; i < 10_000; i++) deep = { deep };
    cyclic["deep"] = deep;
    const text = JSON.stringify(redactValue(cyclic));
    for (const part of ["[circular]", "[unreadable]", '"n":"10"', "[9 bytes]", "900 more", "[deep]"])
      expect(text).toContain(part);
    expect(text.length).toBeLessThan(30_000);
  });
});
