import { describe, expect, test } from "bun:test";
import { parseIp } from "../../lib/net/ip.ts";
import { DialError, judgeAddress, judgeName, judgeUrl, networkPolicy, PUBLIC_ONLY, resolveChecked } from "./address.ts";

const words = (text: string) => text.trim().split(/\s+/);
const PRIVATE = networkPolicy({ allow_private: true, allow: [] });
const verdictOf = (address: string, policy = PUBLIC_ONLY) => {
  const verdict = judgeAddress(parseIp(address)!, policy);
  return verdict.allowed ? "allowed" : `tier ${verdict.tier}`;
};

const ALLOWED = words(`
  1.0.0.0 1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255
  169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.0.3.0 192.88.98.255 192.88.100.0
  192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255
  203.0.114.0 223.255.255.255 168.63.129.15 168.63.129.17 93.184.216.34 185.199.108.153
  2000::1 2001:200::1 2001:4860:4860::8888 2606:4700:4700::1111 2400:cb00::1 2a00:1450::1
  2001:db7:ffff::1 2001:db9::1 3ffe::1 3fff:1000::1 2003::1 2600::1 2a02:6b8::2:242
  ::ffff:8.8.8.8 ::ffff:808:808 64:ff9b::8.8.8.8 64:ff9b::101:101 2002:808:808::1 2002:101:101:1::1
  2001:0:4136:e378:8000:63bf:f7f7:f7f7 2606:4700::5efe:808:808 2606:4700::200:5efe:808:808`);

const TIER_1 = words(`
  0.0.0.0 0.0.0.1 0.255.255.255 127.0.0.0 127.0.0.1 127.0.0.53 127.1.2.3 127.255.255.255 169.254.0.0 169.254.169.254
  169.254.170.2 169.254.255.255 192.0.0.0 192.0.0.1 192.0.0.8 192.0.0.9 192.0.0.170 192.0.0.192 192.0.0.255 192.0.2.0
  192.0.2.255 192.88.99.0 192.88.99.1 198.18.0.0 198.18.0.1 198.19.255.255 198.51.100.0 198.51.100.255 203.0.113.0
  203.0.113.255 224.0.0.0 224.0.0.1 224.0.0.251 232.1.2.3 239.255.255.250 239.255.255.255 240.0.0.0 250.1.2.3
  192.31.196.1 192.52.193.1 192.175.48.1 255.255.255.254 255.255.255.255 168.63.129.16 100.100.100.200
  2620:4f:8000::1 2001:3::1 2001:4:112::1 fd00:ec2::23 fd00:42::42 2002:808:808::5efe:7f00:1 2606:4700::300:5efe:7f00:1
  :: ::1 ::2 ::ffff 100:: 100::1 100:0:0:1::1 200::1 400::1 1000::1 1fff::1 2001:1::1 2001:1::2 2001:2::1 2001:5::1
  2001:10::1 2001:1f::1 2001:20::1 2001:2f::1 2001:30::1 2001:100::1 2001:1ff:ffff::1 2001:db8::1 2001:db8:ffff::1
  3fff::1 3fff:fff::1 4000::1 5f00::1 6000::1 8000::1 c000::1 f000::1 fe00::1 fe80::1 fe80::a9fe:a9fe febf::1 fec0::1
  feff::1 ff00::1 ff02::1 ff02::fb ff05::2 ff0e::1 ffff::1 fd00:ec2::254 fd20:ce::254 fd00:c1::a9fe:a9fe
  ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:0.0.0.0 ::ffff:169.254.169.254 ::ffff:a9fe:a9fe ::ffff:224.0.0.1
  ::ffff:255.255.255.255 ::ffff:192.0.2.1 ::ffff:100.100.100.200
  ::127.0.0.1 ::7f00:1 ::169.254.169.254 ::8.8.8.8 ::ffff:0:127.0.0.1 ::ffff:0:8.8.8.8
  64:ff9b::127.0.0.1 64:ff9b::7f00:1 64:ff9b::169.254.169.254 64:ff9b::0.0.0.0 64:ff9b::224.0.0.1 64:ff9b::192.0.2.33
  64:ff9b:1:: 64:ff9b:1::127.0.0.1 64:ff9b:1:7f00:0:100:: 64:ff9b:1:a9fe:a9:fe00:: 64:ff9b:2::1 64:ff9c::1
  2002:7f00:1:: 2002:7f00:1::1 2002:a9fe:a9fe::1 2002:0:0::1 2002:e000:1::1 2002:c000:201::1 2002:ffff:ffff::1
  2001:0:7f00:1:8000:63bf:f7f7:f7f7 2001:0:4136:e378:8000:63bf:80ff:fffe 2001:0:4136:e378:8000:63bf:5601:5601
  2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:0:a9fe:a9fe::f7f7:f7f7 2001::1
  2606:4700::5efe:7f00:1 2606:4700::200:5efe:a9fe:a9fe`);

const TIER_2 = words(`
  10.0.0.0 10.0.0.1 10.255.255.255 100.64.0.0 100.64.0.1 100.100.100.199 100.127.255.255 172.16.0.0 172.16.0.1
  172.20.1.2 172.31.255.255 192.168.0.0 192.168.1.1 192.168.255.255
  fc00:: fc00::1 fd00::1 fd12:3456:789a::1 fdff:ffff::1 fd00:ec2::253
  ::ffff:10.0.0.1 ::ffff:192.168.1.1 ::ffff:ac10:1 ::ffff:100.64.0.1
  64:ff9b::10.0.0.1 64:ff9b::c0a8:101 64:ff9b:1::10.0.0.1 64:ff9b:1::8.8.8.8 64:ff9b:1:a00:0:100::
  2002:a00:1::1 2002:c0a8:101::1 2002:ac10:1::1 2001:0:a00:1:8000:63bf:f7f7:f7f7
  2001:0:4136:e378:8000:63bf:f5ff:fffe 2606:4700::5efe:a00:1`);

test("there are at least two hundred vectors", () => {
  expect(ALLOWED.length + TIER_1.length + TIER_2.length).toBeGreaterThan(200);
});
test.each(ALLOWED)("%s may be connected to", (address) => expect(verdictOf(address)).toBe("allowed"));
test.each(TIER_1)("%s is tier 1, and allow_private does not change that", (address) => {
  expect(verdictOf(address)).toBe("tier 1");
  expect(verdictOf(address, PRIVATE)).toBe("tier 1");
});
test.each(TIER_2)("%s is tier 2, and allow_private opens it", (address) => {
  expect(verdictOf(address)).toBe("tier 2");
  expect(verdictOf(address, PRIVATE)).toBe("allowed");
});
test("bytes of any other length are refused", () => {
  for (const length of [0, 3, 5, 8, 15, 17]) expect(judgeAddress(new Uint8Array(length), PRIVATE).allowed).toBe(false);
});

describe("the operator's list", () => {
  const policy = networkPolicy({
    allow_private: false,
    allow: ["127.0.0.1", "10.1.0.0/16", "fd00:1::/32", "Hooks.Lan."],
  });

  test.each([
    ["127.0.0.1", "allowed"],
    ["::ffff:127.0.0.1", "allowed"],
    ["127.0.0.2", "tier 1"],
    ["10.1.2.3", "allowed"],
    ["10.2.0.1", "tier 2"],
    ["fd00:1::5", "allowed"],
    ["fd00:2::5", "tier 2"],
    ["64:ff9b::127.0.0.1", "tier 1"], // the list names the address connected to, not one embedded in it
    ["2002:7f00:1::1", "tier 1"],
    ["8.8.8.8", "allowed"],
  ])("makes %s %s", (address, verdict) => expect(verdictOf(address, policy)).toBe(verdict));

  test("a range does not open a metadata address inside it, the address itself does", () => {
    const wide = { allow_private: true, allow: ["100.64.0.0/10", "169.254.0.0/16", "fd00::/8", "0.0.0.0/0", "::/0"] };
    for (const address of ["100.100.100.200", "169.254.169.254", "fd00:ec2::254", "::ffff:168.63.129.16"])
      expect(verdictOf(address, networkPolicy(wide))).toBe("tier 1");
    expect(verdictOf("169.254.1.1", networkPolicy(wide))).toBe("allowed");
    expect(verdictOf("100.100.100.200", networkPolicy({ ...wide, allow: ["100.100.100.200"] }))).toBe("allowed");
  });

  test("an IPv6 range does not cover IPv4 written as IPv6, unless the range has the same form", () => {
    expect(verdictOf("::ffff:127.0.0.1", networkPolicy({ allow_private: false, allow: ["::/0"] }))).toBe("tier 1");
    const mapped = networkPolicy({ allow_private: false, allow: ["::ffff:127.0.0.0/104"] });
    for (const address of ["::ffff:127.0.0.1", "127.9.9.9"]) expect(verdictOf(address, mapped)).toBe("allowed");
    expect(verdictOf("128.0.0.1", mapped)).toBe("allowed");
    expect(verdictOf("10.0.0.1", mapped)).toBe("tier 2");
  });

  test("a listed name may lead to any address, its subdomains may not", async () => {
    const lookup = async () => [{ address: "127.0.0.9" }];
    expect(await resolveChecked("hooks.lan", policy, lookup)).toEqual(["127.0.0.9"]);
    expect(await resolveChecked("HOOKS.lan.", policy, lookup)).toEqual(["127.0.0.9"]);
    expect(resolveChecked("x.hooks.lan", policy, lookup)).rejects.toThrow("not allowed");
    expect(judgeName("localhost", networkPolicy({ allow_private: false, allow: ["localhost"] })).allowed).toBe(true);
  });
});

describe("URLs", () => {
  test.each([
    ..."https://example.com https://example.com:8443/x?y=1 https://EXAMPLE.com. https://8.8.8.8/ https://[2606:4700::1111]:81/".split(
      " ",
    ),
    ..."https://xn--bcher-kva.example https://a_b.example https://hooks.corp.internal https://intranet".split(" "),
  ])("%s passes", (url) => expect(judgeUrl(url, PUBLIC_ONLY).allowed).toBe(true));

  test.each([
    ..."https://127.0.0.1 https://127.1 https://0x7f.1 https://0177.0.0.1 https://2130706433 https://0x7f000001".split(
      " ",
    ),
    ..."https://017700000001 https://127.0.0.1. https://0 https://0x https://[::1] https://[0:0:0:0:0:0:0:1]".split(
      " ",
    ),
    ..."https://[::ffff:127.0.0.1] https://[::ffff:7f00:1] https://[::] https://169.254.169.254/latest/meta-data".split(
      " ",
    ),
    ..."https://0xa9fea9fe https://2852039166 https://[64:ff9b::a9fe:a9fe] https://[fe80::1] https://[fe80::1%25eth0]".split(
      " ",
    ),
    ..."https://localhost https://LOCALHOST https://localhost. https://localhost.. https://a.localhost https://a.b.localhost.".split(
      " ",
    ),
    ..."https://loc%61lhost https://ｌｏｃａｌｈｏｓｔ https://127。0。0。1 https://①②⑦.0.0.1 https://lo\u00adcalhost".split(
      " ",
    ),
    ..."https://metadata.google.internal https://METADATA.google.internal. https://metadata.goog https://instance-data".split(
      " ",
    ),
    ..."https://10.0.0.1 https://192.168.1.1 https://[fd00::1] https://localhost.localdomain https://ip6-localhost".split(
      " ",
    ),
    ..."https://user@example.com https://user:pw@example.com https://:pw@example.com https://example.com@127.0.0.1".split(
      " ",
    ),
    ..."http://example.com ftp://example.com file:///etc/passwd gopher://x javascript:1 data:,x https:// //x x https://a..b".split(
      " ",
    ),
    "https://exa mple.com",
    "",
  ])("%p is refused", (url) => expect(judgeUrl(url, PUBLIC_ONLY, { allowHttp: false }).allowed).toBe(false));

  test("plain http passes only if the caller allows it", () => {
    expect(judgeUrl("http://example.com", PUBLIC_ONLY, { allowHttp: true }).allowed).toBe(true);
    expect(judgeUrl("http://127.0.0.1", PUBLIC_ONLY, { allowHttp: true }).allowed).toBe(false);
    expect(judgeUrl("ftp://example.com", PUBLIC_ONLY, { allowHttp: true }).allowed).toBe(false);
  });

  test("a verdict names the host without brackets and dot", () => {
    expect(judgeUrl("https://Example.com.:8443/x", PUBLIC_ONLY)).toMatchObject({
      host: "example.com",
      literal: undefined,
    });
    expect(judgeUrl("https://[2606:4700::1111]", PUBLIC_ONLY)).toMatchObject({ host: "2606:4700::1111" });
  });
});

describe("resolution", () => {
  const answering =
    (...addresses: string[]) =>
    async () =>
      addresses.map((address) => ({ address }));
  const outcome = (...addresses: string[]) =>
    resolveChecked("a.example", PUBLIC_ONLY, answering(...addresses)).catch((error) => (error as DialError).code);

  test("gives the checked addresses, IPv4 first", async () => {
    expect(await outcome("2606:4700::1111", "8.8.8.8", "1.1.1.1")).toEqual(["8.8.8.8", "1.1.1.1", "2606:4700::1111"]);
    expect(await outcome("::ffff:8.8.8.8")).toEqual(["8.8.8.8"]);
  });

  test.each([
    [["8.8.8.8", "127.0.0.1"]],
    [["8.8.8.8", "::1"]],
    [["8.8.8.8", "10.0.0.1"]],
    [["fe80::1%eth0"]],
    [["8.8.8.8", "nonsense"]],
    [["0x7f.1"]],
  ])("one bad answer refuses the name: %p", async (addresses) =>
    expect(await outcome(...addresses)).toBe("address_refused"),
  );

  test("no answer and a failing resolver are unresolved, not refused", async () => {
    expect(await outcome()).toBe("unresolved");
    const failing = () => Promise.reject(new Error("SERVFAIL"));
    expect(resolveChecked("a.example", PUBLIC_ONLY, failing)).rejects.toMatchObject({ code: "unresolved" });
  });

  test("a refused name is never resolved, and a literal needs no lookup", async () => {
    const never = () => {
      throw new Error("looked up");
    };
    expect(resolveChecked("metadata.google.internal", PUBLIC_ONLY, never)).rejects.toMatchObject({
      code: "address_refused",
    });
    expect(await resolveChecked("8.8.8.8", PUBLIC_ONLY, never)).toEqual(["8.8.8.8"]);
    expect(resolveChecked("127.0.0.1", PUBLIC_ONLY, never)).rejects.toMatchObject({ code: "address_refused" });
  });

  test("a name that turns to loopback after registration is refused at the next call", async () => {
    const answers = ["8.8.8.8", "127.0.0.1"];
    const rebinding = async () => [{ address: answers.shift()! }];
    expect(await resolveChecked("a.example", PUBLIC_ONLY, rebinding)).toEqual(["8.8.8.8"]);
    expect(resolveChecked("a.example", PUBLIC_ONLY, rebinding)).rejects.toBeInstanceOf(DialError);
  });
});
