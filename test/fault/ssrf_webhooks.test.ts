import { afterAll, beforeAll, expect, test } from "bun:test";
import { formatIp, inCidr, parseCidr } from "../../src/lib/net/ip.ts";
import { requireReachable } from "../../src/resources/watching/webhooks/guard.ts";
import { type TestApp, testApp } from "../harness.ts";
import { randomFor } from "../sweep.ts";
import {
  boundsOf,
  carriers,
  IPV4_SPECIAL,
  IPV6_SPECIAL,
  METADATA,
  REFUSED_NAMES,
  spellings,
  toBytes,
} from "./ssrf_vectors.ts";

let app: TestApp;
beforeAll(() => {
  app = testApp({ flags: { "http.rate_limit_per_second": 0 } });
});
afterAll(() => app.close().then(app.remove));

const firstOf = (cidr: string) => {
  const parsed = parseCidr(cidr)!;
  return toBytes(boundsOf(parsed)[0], parsed.bytes.length);
};
const bracketed = (address: string) => (address.includes(":") ? `[${address}]` : address);
const v4 = IPV4_SPECIAL.map(([cidr]) => firstOf(cidr));
const v6 = IPV6_SPECIAL.map(([cidr]) => firstOf(cidr));

test("no endpoint can be made or moved to an inside address, in any spelling", async () => {
  const hosts = [
    ...v4.flatMap((bytes) => [...spellings(bytes), ...carriers(bytes)]),
    ...v6.map((bytes) => bracketed(formatIp(bytes))),
    ...METADATA.map(bracketed),
    ...REFUSED_NAMES,
  ];
  const { id } = (await app.call("POST", "/v1/webhooks", { url: "https://203.0.114.7/" })).body;
  const got = new Set<string>();
  for (const [i, host] of hosts.entries()) {
    const json = { url: `https://${host}/hook` };
    const answer =
      i % 2 === 0 ? await app.call("POST", "/v1/webhooks", json) : await app.call("PATCH", `/v1/webhooks/${id}`, json);
    got.add(`${answer.status} ${answer.body.error?.code ?? host}`);
  }
  expect(hosts.length).toBeGreaterThan(500);
  expect([...got]).toEqual(["400 url_not_allowed"]);
  expect((await app.call("GET", "/v1/webhooks")).body.data).toHaveLength(1);
});

test("no endpoint can be made or moved to a name that leads inside, also if another address of it is public", async () => {
  const lead = (address: string) =>
    requireReachable(app.ctx, "https://hooks.example.com/", {
      lookup: async () => [{ address: "203.0.114.7" }, { address }],
    }).then(
      () => `${address} was accepted`,
      (error) => error.code,
    );
  const told = await Promise.all([...v4, ...v6].map(formatIp).concat(METADATA).map(lead));
  expect(new Set(told)).toEqual(new Set(["url_not_allowed"]));
});

test("a thousand public addresses are accepted", async () => {
  const random = randomFor("public webhook addresses");
  const inside = [...IPV4_SPECIAL, ...IPV6_SPECIAL].map(([cidr]) => parseCidr(cidr)!);
  const found: string[] = [];
  while (found.length < 1000) {
    const bytes = Uint8Array.from({ length: found.length % 2 === 0 ? 4 : 16 }, () => Math.floor(random() * 256));
    if (bytes.length === 16) bytes.set([0x26, 0x06]); // of the global range, and nothing is carried inside
    if (!inside.some((cidr) => inCidr(bytes, cidr)) && !METADATA.includes(formatIp(bytes))) found.push(formatIp(bytes));
  }
  for (const address of found) {
    await requireReachable(app.ctx, `https://${bracketed(address)}/hook`);
    await requireReachable(app.ctx, "https://hooks.example.com/", { lookup: async () => [{ address }] });
  }
});
