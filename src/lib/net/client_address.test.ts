import { expect, test } from "bun:test";
import { clientAddress, clientNetwork } from "./client_address.ts";
import { type Cidr, parseCidr } from "./ip.ts";

const proxies = ["10.0.0.0/8", "::1"].map((text) => parseCidr(text) as Cidr);

test.each([
  ["a peer that is no proxy is the client, whatever it says", "203.0.113.9", "198.51.100.1", "203.0.113.9"],
  ["behind a proxy it is the last address that is none", "10.0.0.1", "1.1.1.1, 198.51.100.1, 10.0.0.2", "198.51.100.1"],
  ["a proxy that says nothing is the client", "10.0.0.1", null, "10.0.0.1"],
  ["nonsense ends the search", "10.0.0.1", "198.51.100.1, evil", "10.0.0.1"],
  ["an IPv4 address inside IPv6 is itself", "::ffff:203.0.113.9", null, "203.0.113.9"],
  ["and is known as a proxy", "::ffff:10.0.0.1", "2001:DB8::1", "2001:db8::1"],
])("%s", (_name, peer, forwarded, client) => {
  expect(clientAddress(peer, forwarded, proxies)).toBe(client);
});

test("an IPv6 network is one client, and each IPv4 address is one client", () => {
  expect(clientNetwork("2001:db8::1")).toBe(clientNetwork("2001:db8:0:0:ffff::2"));
  expect(clientNetwork("2001:db8::1")).not.toBe(clientNetwork("2001:db8:0:1::1"));
  expect(clientNetwork("203.0.113.9")).not.toBe(clientNetwork("203.0.113.8"));
});
