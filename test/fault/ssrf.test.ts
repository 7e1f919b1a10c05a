import { describe, expect, test } from "bun:test";
import { formatIp, inCidr, parseCidr, parseIp } from "../../src/lib/net/ip.ts";
import { DialError, judgeUrl, networkPolicy, PUBLIC_ONLY, resolveChecked } from "../../src/platform/network/address.ts";
import { SEED, seedFor } from "../sweep.ts";
import * as vectors from "./ssrf_vectors.ts";

const PRIVATE = networkPolicy({ allow_private: true, allow: [] });
const SPECIAL = [...vectors.IPV4_SPECIAL, ...vectors.IPV6_SPECIAL].map(([text, tier]) => ({
  ...parseCidr(text)!,
  tier,
}));

/** First, last and a middle address of every special range, and the metadata services. */
const targets = [
  ...SPECIAL.flatMap((cidr) => {
    const [first, last] = vectors.boundsOf(cidr);
    const chosen = new Set([first, last, first + (last - first) / 3n]);
    return [...chosen].map((at) => ({ bytes: vectors.toBytes(at, cidr.bytes.length), tier: cidr.tier }));
  }),
  ...vectors.METADATA.map((text) => ({ bytes: parseIp(text)!, tier: 1 as const })),
];
const v4 = targets.filter(({ bytes }) => bytes.length === 4);
const v6 = targets.filter(({ bytes }) => bytes.length === 16);

const passes = (url: string, policy = PUBLIC_ONLY) => judgeUrl(url, policy, { allowHttp: true }).allowed;
let judged = 0;
/** The addresses that got through, so that a failure shows them. */
const holes = (urls: readonly string[], policy = PUBLIC_ONLY) => {
  judged += urls.length;
  return urls.filter((url) => passes(url, policy));
};
const urlOf = (host: string) => `https://${host}/hook?x=1`;

describe("every special range is refused", () => {
  test("as IPv4, in each spelling of a URL", () => {
    const urls = v4.flatMap(({ bytes }) => vectors.spellings(bytes).map(urlOf));
    expect(holes(urls)).toEqual([]);
    for (const { bytes } of v4) {
      const read = vectors
        .spellings(bytes)
        .map((host) => (URL.canParse(urlOf(host)) ? new URL(urlOf(host)).hostname : host));
      expect(new Set(read)).toEqual(new Set([bytes.join(".")])); // the spellings are what they claim to be
    }
  });

  test("as IPv6, long and short, with a port and over plain HTTP", () => {
    const long = (bytes: Uint8Array) =>
      Array.from({ length: 8 }, (_, i) => Buffer.from(bytes).toString("hex", 2 * i, 2 * i + 2)).join(":");
    const hosts = v6.flatMap(({ bytes }) => [formatIp(bytes), long(bytes), long(bytes).toUpperCase()]);
    expect(
      holes(hosts.flatMap((host) => [`https://[${host}]`, `https://[${host}]:8443/`, `http://[${host}]/`])),
    ).toEqual([]);
  });

  test("as IPv4 inside IPv6, by every transition mechanism", () => {
    expect(
      holes(v4.flatMap(({ bytes }) => [...vectors.carriers(bytes), ...vectors.localNat64(bytes)].map(urlOf))),
    ).toEqual([]);
    expect(holes(["https://[64:ff9b:1::8.8.8.8]", "https://[::8.8.8.8]", "https://[::ffff:0:8.8.8.8]"])).toEqual([]);
  });

  test("tier 1 also if the operator allows private ranges", () => {
    const strict = [...v4, ...v6].filter(({ tier }) => tier === 1);
    expect(
      holes(
        strict.map(({ bytes }) => urlOf(bytes.length === 4 ? bytes.join(".") : `[${formatIp(bytes)}]`)),
        PRIVATE,
      ),
    ).toEqual([]);
    const inside = strict.filter(({ bytes }) => bytes.length === 4);
    expect(
      holes(
        inside.flatMap(({ bytes }) => vectors.carriers(bytes).map(urlOf)),
        PRIVATE,
      ),
    ).toEqual([]);
    const nonzero = inside.filter(({ bytes }) => bytes[0] !== 0); // 0.0.0.0/8 is no destination behind a translator
    expect(
      holes(
        nonzero.flatMap(({ bytes }) => vectors.localNat64(bytes).map(urlOf)),
        PRIVATE,
      ),
    ).toEqual([]);
    const open = targets
      .filter(({ tier }) => tier === 2)
      .map(({ bytes }) => (bytes.length === 4 ? bytes.join(".") : `[${formatIp(bytes)}]`));
    expect(open.filter((host) => !passes(urlOf(host), PRIVATE))).toEqual([]);
  });
});

describe("a name", () => {
  const leadingTo = (...answers: string[]) =>
    resolveChecked("a.example", PUBLIC_ONLY, async () => answers.map((address) => ({ address }))).then(
      (addresses) => `dials ${addresses}`,
      (error) => (error instanceof DialError ? error.code : String(error)),
    );

  test("that leads to any special range is refused, alone or at any position among good answers", async () => {
    const slipped: string[] = [];
    for (const { bytes } of targets) {
      const address = formatIp(bytes);
      const zoned = bytes.length === 16 ? `${address}%eth0` : address;
      const mapped = bytes.length === 4 ? `::ffff:${address}` : address;
      for (const answers of [
        [address],
        [zoned],
        [mapped],
        ["8.8.8.8", "2606:4700::1111", address],
        [address, "8.8.8.8"],
      ]) {
        judged++;
        if ((await leadingTo(...answers)) !== "address_refused") slipped.push(answers.join());
      }
    }
    expect(slipped).toEqual([]);
  });

  test("of this machine or of a metadata service is refused before it is resolved", async () => {
    const written = vectors.REFUSED_NAMES.flatMap((name) => [
      ...[name, name.toUpperCase(), `${name}.`, `${name}:8443`, name.replace("a", "%61"), name.replaceAll("a", "ａ")],
      ...[name.replace("a", "\u00ada"), name.replace("l", "ｌ"), name.replaceAll(".", "。"), name.replace("a", "ⓐ")],
    ]);
    expect(holes(written.map((host) => `https://${host}/`))).toEqual([]);
    for (const name of vectors.REFUSED_NAMES) {
      const looked = () => Promise.reject(new Error("it was looked up"));
      await expect(resolveChecked(name, PUBLIC_ONLY, looked)).rejects.toMatchObject({ code: "address_refused" });
    }
  });

  test("that is a disguised number is no name, so that no resolver reads it as an address", async () => {
    for (const host of [
      "127.1",
      "2130706433",
      "0x7f000001",
      "0177.0.0.1",
      "127.0.0.1.",
      "a.1",
      "[::1]",
      "::1%lo",
      "1.2.3",
    ]) {
      judged++;
      const outcome = resolveChecked(host, PUBLIC_ONLY, async () => [{ address: "8.8.8.8" }]);
      await expect(outcome).rejects.toMatchObject({ code: "address_refused" });
    }
  });
});

describe("public addresses are accepted", () => {
  let seed = seedFor("public addresses");
  const random = () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), seed | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return BigInt((t ^ (t >>> 14)) >>> 0);
  };
  const carrying = ["2001::/32", "2002::/16", "64:ff9b::/96"].map((text) => parseCidr(text)!);
  const metadata = new Set(vectors.METADATA);
  const isPublic = (bytes: Uint8Array) =>
    ![...SPECIAL, ...carrying].some((cidr) => inCidr(bytes, cidr)) && !metadata.has(formatIp(bytes));

  test(`a thousand random addresses of each family, as literals and behind names (seed ${SEED})`, async () => {
    const chosen: Uint8Array[] = [];
    while (chosen.length < 1000) chosen.push(...[vectors.toBytes(random(), 4)].filter(isPublic));
    while (chosen.length < 2000) {
      const low = (random() << 64n) | (random() << 32n) | random();
      chosen.push(...[vectors.toBytes((1n << 125n) | ((random() >> 3n) << 96n) | low, 16)].filter(isPublic)); // 2000::/3
    }
    const refused: string[] = [];
    for (const bytes of chosen) {
      const address = formatIp(bytes);
      if (!passes(urlOf(bytes.length === 4 ? address : `[${address}]`))) refused.push(address);
      const dialled = await resolveChecked("a.example", PUBLIC_ONLY, async () => [{ address }]).catch(String);
      if (String(dialled) !== address) refused.push(`${address} behind a name`);
    }
    expect(refused).toEqual([]);
  });

  test("the neighbours of every special range, if they are not special themselves", () => {
    const refused: string[] = [];
    for (const cidr of SPECIAL) {
      const length = cidr.bytes.length;
      const [first, last] = vectors.boundsOf(cidr);
      for (const at of [first - 1n, last + 1n]) {
        const bytes = vectors.toBytes(at, length);
        const assigned = length === 4 ? at >= 0n && at < 1n << 32n : bytes[0]! >> 5 === 1;
        const reserved = inCidr(bytes, parseCidr("2001::/23")!); // all of it is for protocols
        const host = length === 4 ? bytes.join(".") : `[${formatIp(bytes)}]`;
        if (assigned && !reserved && isPublic(bytes) && !passes(urlOf(host))) refused.push(host);
      }
    }
    expect(refused).toEqual([]);
  });
});

test("far more than five hundred vectors were checked", () => expect(judged).toBeGreaterThan(3000));
