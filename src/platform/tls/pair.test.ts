import { afterAll, beforeAll, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig } from "../config/config.ts";
import { plainExposure } from "./exposure.ts";
import { issue, issueAuthority } from "./issue.ts";
import { readTlsPair, remainingMs } from "./pair.ts";

const dir = mkdtempSync(join(tmpdir(), "verk-tls-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const put = (name: string, text: string) => {
  writeFileSync(join(dir, name), text);
  return join(dir, name);
};
const names = ["verk.lab", "10.0.0.5", "fd00::5"];
const nowMs = Date.now();
const ca = await issueAuthority('lab, "the" first', nowMs);
const made = await issue(ca, { names, days: 10, purpose: "server", nowMs });
const settings = { tls_cert: "", tls_key: "", tls_client_ca: "" };
beforeAll(() => {
  Object.assign(settings, { tls_cert: put("s.crt", made.cert), tls_key: put("s.key", made.key) });
});

test("a server certificate has its names and addresses and is signed by the authority", () => {
  const [leaf, root] = [new X509Certificate(made.cert), new X509Certificate(ca.cert)];
  expect([leaf.checkHost("verk.lab"), leaf.checkIP("10.0.0.5"), leaf.checkIP("fd00::5")]).toEqual(names);
  expect(leaf.checkHost("other.lab")).toBeUndefined();
  expect([leaf.verify(root.publicKey), leaf.ca, root.ca]).toEqual([true, false, true]);
  expect(root.subject).toBe("CN=Verk CA of lab- -the- first");
});

test("a pair is read, and its end is known", () => {
  const pair = readTlsPair(settings);
  expect(Math.round(remainingMs(pair as NonNullable<typeof pair>, nowMs) / 86_400_000)).toBe(10);
  expect(readTlsPair({ ...settings, tls_cert: "", tls_key: "" })).toBeUndefined();
});

test.each([
  [{ tls_cert: "missing.crt" }, "http.tls_cert: cannot read"],
  [{ tls_cert: "s.key" }, "is not a certificate"],
  [{ tls_key: "s.crt" }, "is not a private key"],
  [{ tls_key: "other.key" }, "does not belong to the first certificate"],
  [{ tls_client_ca: "s.key" }, "http.tls_client_ca"],
])("%p is refused with the setting in the message", (change, message) => {
  put("other.key", ca.key);
  const [[setting = "", file = ""] = []] = Object.entries(change);
  expect(() => readTlsPair({ ...settings, [setting]: join(dir, file) })).toThrow(message);
});

test.each([
  ["127.0.0.1:7070", "", false],
  ["localhost:7070", "", false],
  ["[::1]:7070", "", false],
  ["0.0.0.0:7070", "", true],
  ["[::]:7070", "", true],
  ["10.0.0.5:7070", "", true],
  ["0.0.0.0:7070", "x", false],
])("listening on %s with the certificate %p: a warning is %p", (listen, cert, warned) => {
  const flags = { "http.listen": listen, "http.tls_cert": cert, "http.tls_key": cert };
  expect(plainExposure(loadConfig({ env: {}, flags }).http) !== undefined).toBe(warned);
});
