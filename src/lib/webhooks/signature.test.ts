import { describe, expect, spyOn, test } from "bun:test";
import * as crypto from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { bodyOf } from "../../resources/watching/webhooks/delivery/enqueue.ts";
import { rotate, type Secrets, signingSecrets } from "../../resources/watching/webhooks/rotation.ts";
import { openRandom } from "../random.ts";
import { deliveryHeaders, keyOf, macOf, maskSecret, mintSecret, sign, verify } from "./signature.ts";

const NOW = 1_700_000_000;
const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const BODY = new TextEncoder().encode('{"id":"evt_1","text":"zażółć 🦊"}');
const random = openRandom(20_260_101);
const bytes = (length: number) => Uint8Array.from({ length }, () => Math.floor(random() * 256));
const secretOf = (length: number) => `whsec_${Buffer.from(bytes(length)).toString("base64")}`;

const hex = (text: string) => Buffer.from(text, "hex");
const vectors = readFileSync(join(import.meta.dir, "../../../test/fixtures/hmac_sha256.txt"), "utf8")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"))
  .map((line) => {
    const [key, message, tag, verdict] = line.split(" ") as [string, string, string, string];
    return { key: hex(key), message: hex(message === "-" ? "" : message), tag: hex(tag), valid: verdict === "valid" };
  });

/** HMAC from its definition (RFC 2104), over the platform's plain hash: nothing shared with the signer. */
function hmacByDefinition(key: Uint8Array, message: Uint8Array): Uint8Array {
  const hash = (...parts: Uint8Array[]) => {
    const sha = new Bun.CryptoHasher("sha256");
    for (const part of parts) sha.update(part);
    return new Uint8Array(sha.digest());
  };
  const block = new Uint8Array(64);
  block.set(key.length > 64 ? hash(key) : key);
  const pad = (byte: number) => block.map((each) => each ^ byte);
  return hash(pad(0x5c), hash(pad(0x36), message));
}

describe("the mac", () => {
  const text = (value: string) => Buffer.from(value).toString("hex");
  const published: [name: string, key: string, message: string, tag: string][] = [
    ["1", "0b".repeat(20), text("Hi There"), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"],
    [
      "2, a short key",
      text("Jefe"),
      text("what do ya want for nothing?"),
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    ],
    ["3", "aa".repeat(20), "dd".repeat(50), "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"],
    [
      "4",
      "0102030405060708090a0b0c0d0e0f10111213141516171819",
      "cd".repeat(50),
      "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
    ],
    [
      "5, of which 128 bits are given",
      "0c".repeat(20),
      text("Test With Truncation"),
      "a3b6167473100ee06e0c796c2955552b",
    ],
    [
      "6, a key longer than a block",
      "aa".repeat(131),
      text("Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ],
  ];
  test.each(published)("is that of RFC 4231's test case %s", (_name, key, message, tag) => {
    const mac = macOf(Buffer.from(key, "hex"), Buffer.from(message, "hex"));
    expect(mac.toString("hex").slice(0, tag.length)).toBe(tag);
  });

  test("matches the definition for every length of key and message around the block size, for all chunks", () => {
    for (let length = 0; length < 200; length++) {
      const [key, message] = [bytes(1 + Math.floor(random() * 140)), bytes(length)];
      const cut = Math.floor(random() * length);
      const mac = macOf(key, message.slice(0, cut), message.slice(cut));
      expect(mac.equals(hmacByDefinition(key, message))).toBe(true);
    }
  });

  test("matches every published vector, and none with a changed tag", () => {
    expect([vectors.length, vectors.filter(({ valid }) => valid).length]).toEqual([174, 66]);
    for (const { key, message, tag, valid } of vectors)
      expect(macOf(key, message).subarray(0, tag.length).equals(tag)).toBe(valid);
  });
});

describe("a secret", () => {
  test("is whsec_ and canonical base64 of 24 to 64 bytes", () => {
    for (let length = 0; length <= 80; length++)
      expect(keyOf(secretOf(length))?.length).toBe(length >= 24 && length <= 64 ? length : (undefined as never));
    const body = Buffer.alloc(32, 255).toString("base64");
    for (const bad of [
      body,
      `whsek_${body}`,
      `whsec_${body.replace("=", "")}`,
      `whsec_${body.replaceAll("/", "_")}`,
      `whsec_${body}\n`,
      `whsec_ ${body}`,
      `WHSEC_${body}`,
      "",
    ])
      expect(keyOf(bad)).toBeUndefined();
  });

  test("that the server makes is valid, unique, and has no padding", () => {
    const minted = Array.from({ length: 100 }, mintSecret);
    expect(new Set(minted).size).toBe(100);
    for (const secret of minted) expect([keyOf(secret)?.length, secret.includes("=")]).toEqual([33, false]);
  });

  test("is masked to its last four characters; a text that is no secret is masked whole", () => {
    expect(maskSecret(SECRET)).toBe(`whsec_****${SECRET.slice(-4)}`);
    expect(maskSecret("vk_somebody_pasted_a_key")).toBe("whsec_****");
  });
});

const delivered = (secrets: readonly string[], at = NOW, body = BODY) => ({
  headers: new Headers(deliveryHeaders({ id: "evt_1", timestampSeconds: at, body }, secrets)),
  body,
});
const check = (message: Parameters<typeof verify>[0], secrets = [SECRET]) => {
  const verdict = verify(message, { secrets, nowSeconds: NOW });
  return verdict.valid ? "valid" : verdict.reason;
};

describe("a signature", () => {
  test("is base64 of the mac over id, timestamp and body with dots between", () => {
    const content = Buffer.concat([Buffer.from(`evt_1.${NOW}.`), BODY]);
    const mac = Buffer.from(hmacByDefinition(Buffer.alloc(32, 7), content)).toString("base64");
    expect(sign({ id: "evt_1", timestampSeconds: NOW, body: BODY }, [SECRET])).toBe(`v1,${mac}`);
  });

  test("is refused when any byte of the body, the id, the time or the signature differs", () => {
    for (let i = 0; i < BODY.length; i++) {
      const body = BODY.slice();
      body[i]! ^= 1;
      expect(check({ ...delivered([SECRET]), body })).toBe("no_matching_signature");
    }
    const signature = delivered([SECRET]).headers.get("webhook-signature")!;
    const others = [...signature].map(
      (c, i) => signature.slice(0, i) + (c === "A" ? "B" : "A") + signature.slice(i + 1),
    );
    for (const other of [...others, signature.slice(3), signature.slice(0, -1), `v1a,${signature.slice(3)}`])
      expect(check(having({ "webhook-signature": other }))).toBe("no_matching_signature");
    expect(check(having({ "webhook-id": "evt_2" }))).toBe("no_matching_signature");
    expect(check(having({ "webhook-timestamp": String(NOW + 1) }))).toBe("no_matching_signature");
    expect(check(delivered([secretOf(32)]))).toBe("no_matching_signature");
  });

  const having = (changed: Record<string, string>) => {
    const message = delivered([SECRET]);
    for (const [name, value] of Object.entries(changed)) message.headers.set(name, value);
    return message;
  };

  test("is accepted five minutes off, and refused one second later", () => {
    expect([-301, -300, 0, 300, 301].map((off) => check(delivered([SECRET], NOW + off)))).toEqual([
      "too_old",
      "valid",
      "valid",
      "valid",
      "too_new",
    ]);
  });

  test("is refused when it is changed as a published vector's tag is, and when it is cut", () => {
    let refused = 0;
    for (const { key, message, tag, valid } of vectors) {
      const secret = `whsec_${key.toString("base64")}`;
      if (keyOf(secret) === undefined) continue; // 16 and 65 bytes
      const good = delivered([secret], NOW, message);
      expect(check(good, [secret])).toBe("valid");
      const mac = Buffer.from(good.headers.get("webhook-signature")!.slice(3), "base64");
      const right = macOf(key, message);
      const changed = mac.map((byte, i) => (i < tag.length ? byte ^ right[i]! ^ tag[i]! : byte)) as Buffer;
      const forged = [mac.subarray(0, tag.length - 1), mac.subarray(0, 16), Buffer.concat([mac, mac])];
      for (const other of valid ? forged : [changed, ...forged]) {
        good.headers.set("webhook-signature", `v1,${Buffer.from(other).toString("base64")}`);
        expect(check(good, [secret])).toBe("no_matching_signature");
        refused++;
      }
    }
    expect(refused).toBeGreaterThan(500); // or it was not tried
  });

  test("is compared whole and in constant time, each entry with each secret, also after one that matched", () => {
    const compared = spyOn(crypto, "timingSafeEqual");
    const others = [secretOf(32), secretOf(32)];
    expect(check(delivered([SECRET, ...others]), [SECRET, ...others])).toBe("valid");
    expect(compared.mock.calls.map(([a]) => a.byteLength)).toEqual(new Array(9).fill("v1,".length + 44));
    compared.mockRestore();
  });

  test.each([
    ["webhook-id", "", "missing_headers"],
    ["webhook-signature", "", "missing_headers"],
    ["webhook-id", "evt_1.2", "malformed_id"],
    ["webhook-timestamp", "1.7e9", "malformed_timestamp"],
    ["webhook-timestamp", `0${NOW}`, "malformed_timestamp"],
    ["webhook-timestamp", "-5", "malformed_timestamp"],
    ["webhook-signature", "v1,a ".repeat(17).trim(), "too_many_signatures"],
  ])("%s: %s is refused as %s", (name, value, reason) => {
    expect(check(having({ [name]: value }))).toBe(reason);
  });

  test("cannot be made with an invalid id, time or secret", () => {
    const message = { id: "evt_1", timestampSeconds: NOW, body: BODY };
    for (const id of ["", "a.b", "a\r\nb", "ż"]) expect(() => sign({ ...message, id }, [SECRET])).toThrow("id");
    for (const time of [1.5, -1, Number.NaN, 1e21])
      expect(() => sign({ ...message, timestampSeconds: time }, [SECRET])).toThrow("seconds");
    expect(() => sign(message, [])).toThrow("no secret");
    expect(() => sign(message, [SECRET, "whsec_AAAA"])).toThrow("24 to 64 bytes");
  });
});

describe("during a rotation", () => {
  const [a, b, c] = [secretOf(24), secretOf(33), secretOf(64)];
  const fresh: Secrets = { current: a, replaced: [] };

  test("both secrets sign, the new one first, and a receiver with either secret accepts", () => {
    const secrets = rotate(fresh, b, { nowMs: 1000, graceMs: 500 });
    expect(signingSecrets(secrets, 1499)).toEqual([b, a]);
    expect(signingSecrets(secrets, 1500)).toEqual([b]);
    const message = delivered(signingSecrets(secrets, 1200));
    expect(message.headers.get("webhook-signature")?.split(" ")).toHaveLength(2);
    expect([check(message, [a]), check(message, [b]), check(message, [c])]).toEqual([
      "valid",
      "valid",
      "no_matching_signature",
    ]);
  });

  test("no older secret outlives a newer one: without grace all older secrets end", () => {
    const twice = rotate(rotate(fresh, b, { nowMs: 0, graceMs: 1000 }), c, { nowMs: 10, graceMs: 100 });
    expect(signingSecrets(twice, 50)).toEqual([c, b, a]);
    expect(signingSecrets(twice, 110)).toEqual([c]);
    expect(rotate(twice, a, { nowMs: 20, graceMs: 0 })).toEqual({ current: a, replaced: [] });
  });

  test("never more than four secrets sign", () => {
    let secrets = fresh;
    for (let i = 0; i < 20; i++) secrets = rotate(secrets, secretOf(24), { nowMs: i, graceMs: 1e6 });
    expect(signingSecrets(secrets, 20)).toHaveLength(4);
  });
});

describe("the reference library", () => {
  const now = Math.floor(Date.now() / 1000);
  const send = (at: number, secrets: readonly string[], data: Record<string, unknown> = {}) => {
    const body = bodyOf({ id: "evt_1", type: "job.completed", createdAtMs: at * 1000, data });
    return { body: Buffer.from(body), headers: deliveryHeaders({ id: "evt_1", timestampSeconds: at, body }, secrets) };
  };

  test("verifies our signatures, for every length of secret and any text in it", () => {
    for (let length = 24; length <= 64; length++) {
      const text = String.fromCharCode(...Array.from({ length }, () => Math.floor(random() * 65_536)));
      const [secret, other] = [secretOf(length), secretOf(length)];
      const { body, headers } = send(now, [other, secret], { text });
      expect(new Webhook(secret).verify(body, headers)).toMatchObject({ id: "evt_1" });
    }
  });

  test("refuses a changed byte, an old time and a wrong secret", () => {
    const { body, headers } = send(now, [SECRET]);
    const webhook = new Webhook(SECRET);
    expect(() => webhook.verify(Buffer.concat([body, Buffer.from(" ")]), headers)).toThrow("No matching");
    const old = send(now - 400, [SECRET]);
    expect(() => webhook.verify(old.body, old.headers)).toThrow("too old");
    expect(() => new Webhook(secretOf(32)).verify(body, headers)).toThrow("No matching");
  });
});
