import { expect, test } from "bun:test";
import { networkInterfaces } from "node:os";
import { formatIp, parseIp } from "../../lib/net/ip.ts";
import { localIpv4, localIpv6, ownAddresses } from "./own_addresses.ts";

test("every address that the runtime knows of is found without it", () => {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const known = all.map(({ address }) => formatIp(parseIp(address.replace(/%.*$/, "")) as Uint8Array));
  expect(known).toContain("127.0.0.1");
  expect(ownAddresses()).toEqual(expect.arrayContaining(known));
});

test("networks, gateways and broadcast addresses are not addresses of this machine", () => {
  const trie = `Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.0.0.0/24 2 0 2
        |-- 10.0.0.0
           /24 link UNICAST
        |-- 10.0.0.5
           /32 host LOCAL
        |-- 10.0.0.255
           /32 link BROADCAST
     |-- 127.0.0.0
        /8 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
Local:
     |-- 10.0.0.5
        /32 host LOCAL
`;
  expect(localIpv4(trie)).toEqual(["10.0.0.5", "127.0.0.1"]);
});

test("an IPv6 address has its short spelling", () => {
  const lines = `00000000000000000000000000000001 01 80 10 80       lo
fe8000000000000042010afffe800005 02 40 20 80     eth0
`;
  expect(localIpv6(lines)).toEqual(["::1", "fe80::4201:aff:fe80:5"]);
});
