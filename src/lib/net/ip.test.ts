import { expect, test } from "bun:test";
import { formatIp, inCidr, normalizeHost, parseCidr, parseIp } from "./ip.ts";

test.each([
  ["127.0.0.1", "127.0.0.1"],
  ["::", "::"],
  ["::1", "::1"],
  ["1::", "1::"],
  ["::ffff:10.0.0.1", "::ffff:a00:1"],
  ["64:ff9b::1.2.3.4", "64:ff9b::102:304"],
  ["2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"],
  ["1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"],
  ["1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"],
  ["1:0:3:4:5:6:7:8", "1:0:3:4:5:6:7:8"],
] as const)("%s is read and printed as %s", (text, canonical) => {
  const bytes = parseIp(text)!;
  expect(formatIp(bytes)).toBe(canonical);
  expect(parseIp(canonical)).toEqual(bytes);
});

test.each([
  ..."1.2.3 1.2.3.4.5 01.2.3.4 256.1.1.1 1.2.3.4. 0x7f.0.0.1 1.2.3.-4 a.b.c.d".split(" "),
  ...": ::: 1::2::3 1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 12345:: g:: fe80::1%eth0 1.2.3.4:: ::1.2.3 1:2:3:4:5:6:7::8:9 [::1]".split(
    " ",
  ),
  "",
])("%p is not an address", (text) => expect(parseIp(text)).toBeUndefined());

test.each([
  ["10.0.0.0/8", "10.255.0.1", true],
  ["10.0.0.0/8", "11.0.0.1", false],
  ["172.16.0.0/12", "172.31.255.255", true],
  ["172.16.0.0/12", "172.32.0.0", false],
  ["192.168.1.7", "192.168.1.7", true],
  ["192.168.1.7", "192.168.1.8", false],
  ["0.0.0.0/0", "8.8.8.8", true],
  ["0.0.0.0/0", "::1", false],
  ["fc00::/7", "fdff::1", true],
  ["fc00::/7", "fe00::1", false],
  ["2001:db8::/32", "2001:db8:ffff::", true],
] as const)("%s contains %s: %p", (cidr, address, inside) => {
  expect(inCidr(parseIp(address)!, parseCidr(cidr)!)).toBe(inside);
});

test.each([
  "10.0.0.1/8",
  "10.0.0.0/33",
  "10.0.0.0/",
  "10.0.0.0/08",
  "10/8",
  "::1/129",
  "fc01::/7",
  "host/8",
  "1.2.3.4/8/8",
])("%p is refused as a range", (text) => expect(parseCidr(text)).toBeUndefined());

test("a host name loses its case and its trailing dot, and nonsense is refused", () => {
  expect(normalizeHost("Hooks.Example.COM.")).toBe("hooks.example.com");
  for (const bad of ["", ".", "a..b", "a b", "a/b", "a:80", "日本", "x".repeat(64), "a..", "10.0.0", "a.0x7f"])
    expect(normalizeHost(bad)).toBeUndefined();
});
