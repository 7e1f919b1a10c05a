import { expect, test } from "bun:test";
import { trusting } from "./trust.ts";

const refusal = (code: string) => Object.assign(new Error(code), { code });

/** A host whose certificate one of the two vouches for, or neither; what was asked of it, in order. */
function hostOf(vouching: () => "public" | "private" | "nobody") {
  const handshakes: string[] = [];
  const send = async (ca: string | undefined) => {
    const under = ca === undefined ? "public" : "private";
    handshakes.push(under);
    if (under !== vouching()) throw refusal("UNABLE_TO_GET_ISSUER_CERT_LOCALLY");
    return under;
  };
  return { handshakes, send };
}

test("a host is verified by the public authorities or the private one, and the next call tries that one first", async () => {
  const authority = { ca: "pem", publicHosts: new Set<string>() };
  let vouching: "public" | "private" = "public";
  const { handshakes, send } = hostOf(() => vouching);
  for (let i = 0; i < 2; i++) expect(await trusting("a.example:1", authority, send)).toBe("public");
  expect(handshakes.splice(0)).toEqual(["private", "public", "public"]);
  vouching = "private"; // it got another certificate
  for (let i = 0; i < 2; i++) expect(await trusting("a.example:1", authority, send)).toBe("private");
  expect(handshakes).toEqual(["public", "private", "private"]);
});

test("a host that neither authority verifies is refused, and nothing is remembered", async () => {
  const authority = { ca: "pem", publicHosts: new Set<string>() };
  const { handshakes, send } = hostOf(() => "nobody");
  for (let i = 0; i < 2; i++) await expect(trusting("b.example", authority, send)).rejects.toThrow("UNABLE_TO_GET");
  expect(handshakes).toEqual(["private", "public", "private", "public"]);
});

test("without a private authority there is one attempt; another failure is not retried", async () => {
  const alone = hostOf(() => "nobody");
  await expect(trusting("c.example", { ca: undefined, publicHosts: new Set() }, alone.send)).rejects.toThrow(
    "UNABLE_TO_GET",
  );
  expect(alone.handshakes).toEqual(["public"]);
  let calls = 0;
  const wrongName = async () => {
    calls++;
    throw refusal("ERR_TLS_CERT_ALTNAME_INVALID");
  };
  await expect(trusting("c.example", { ca: "pem", publicHosts: new Set() }, wrongName)).rejects.toThrow("ALTNAME");
  expect(calls).toBe(1);
});
