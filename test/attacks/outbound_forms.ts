/**
 * Addresses that no outbound connection may reach, as an attacker writes them. A form is a whole URL, so that one list
 * serves every field that takes an address. None of them is a public address.
 */
import { parseIp } from "../../src/lib/net/ip.ts";
import { carriers, REFUSED_NAMES, spellings } from "../fault/ssrf_vectors.ts";

const DOTTED = [
  ..."127.0.0.1 127.0.0.2 127.1.1.1 127.255.255.254 0.0.0.0 0.0.0.1 0.1.2.3 10.0.0.1 10.1.2.3 10.255.255.255".split(
    " ",
  ),
  ..."172.16.0.1 172.20.10.1 172.31.255.254 192.168.0.1 192.168.1.1 192.168.255.254 169.254.169.254".split(" "),
  ..."169.254.170.2 169.254.170.23 169.254.0.1 169.254.42.42 100.64.0.1 100.100.100.200 100.127.255.254".split(" "),
  ..."168.63.129.16 192.0.0.192 192.0.0.8 192.0.2.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9".split(" "),
  ..."192.88.99.1 224.0.0.1 224.0.0.251 239.255.255.250 240.0.0.1 250.1.2.3 255.255.255.255".split(" "),
];
const SPELLED = ["127.0.0.1", "169.254.169.254", "10.0.0.1"];
const IPV6 = [
  ..."::1 :: ::2 0:0:0:0:0:0:0:1 0000:0000:0000:0000:0000:0000:0000:0001 fc00::1 fd00::1 fd12:3456::1".split(" "),
  ..."fdff:ffff::1 fe80::1 fe80::a9fe:a9fe febf::1 fec0::1 ff02::1 ff0e::1 fd00:ec2::254 fd00:ec2::23".split(" "),
  ..."fd20:ce::254 fd00:42::42 2001:db8::1 2001:2::1 2001:10::1 3fff::1 5f00::1 100::1 64:ff9b:1::1 4000::1".split(" "),
];
const PLACES = ["", ":80", ":443", ":2375", ":6379", ":8500", "/latest/meta-data/", "/computeMetadata/v1/?x=1", "#x"];

const hosts = [
  ...DOTTED,
  ...SPELLED.flatMap((text) => [...spellings(parseIp(text)!), ...carriers(parseIp(text)!)]),
  ...IPV6.map((text) => `[${text}]`),
  ...REFUSED_NAMES.flatMap((name) => [name, `${name.toUpperCase()}.`]),
];

/** URLs that two readers could read differently, and what is no web address at all. */
const CONFUSED = [
  ..."https://example.com@127.0.0.1/ https://127.0.0.1@example.com/ https://a:b@10.0.0.1/ https://@127.0.0.1/".split(
    " ",
  ),
  ..."https://example.com:443@127.0.0.1/ https://example.com%40127.0.0.1@10.0.0.1/ https:127.0.0.1".split(" "),
  ..."https:/127.0.0.1 https:///127.0.0.1 //127.0.0.1/ https:\\\\127.0.0.1 https://example.com\\@127.0.0.1/".split(" "),
  ..."https://127.0.0.1\\.example.com/ https:/\\127.0.0.1/ https://[::1%25lo]/ https://[fe80::1%25eth0]/".split(" "),
  ..."https://[::ffff:0x7f.1]/ https://[127.0.0.1]/ https://127.0.0.1:22/ https://127.0.0.1:25/".split(" "),
  ..."https://example.com%00.localhost/ https://example.com%2f@localhost/ https://256.0.0.1/ https://0/".split(" "),
  ..."file:///etc/passwd unix:///run/docker.sock gopher://127.0.0.1:6379/_INFO dict://127.0.0.1:11211/stat".split(" "),
  ..."ftp://127.0.0.1/ ldap://127.0.0.1/ data:text/plain,x javascript:1 jar:https://127.0.0.1!/".split(" "),
  ...[
    "https://127.0.0.1\n/",
    "https://127.\t0.0.1/",
    " https://127.0.0.1/",
    "https://127.0.0.1/ ",
    "https://127.0.0.1\u0000/",
  ],
  ...["https://example.com/\r\nHost: 127.0.0.1", "https://127.0.0.1 .example.com/"],
];

export const FORMS: readonly string[] = [
  ...new Set([
    ...hosts.map((host) => `https://${host}/hook`),
    ...PLACES.flatMap((place) => ["127.0.0.1", "169.254.169.254", "[::1]"].map((host) => `https://${host}${place}`)),
    ...CONFUSED,
  ]),
];

/** The same over plain HTTP, where a field takes that too. */
export const plain = (form: string) => form.replace(/^https:/, "http:");

/** Hosts alone, for fields that take a host and not an address. */
export const HOSTS: readonly string[] = [
  ...DOTTED.slice(0, 24),
  ...SPELLED.flatMap((text) => spellings(parseIp(text)!).slice(0, 12)),
  ...IPV6.slice(0, 12),
  ...REFUSED_NAMES,
];

/** Names of an attacker's own zone, and what they lead to. Nothing is asked of a name server. */
export const NAMES: Readonly<Record<string, readonly string[]>> = {
  "loop.attack.example": ["127.0.0.1"],
  "zero.attack.example": ["0.0.0.0"],
  "ten.attack.example": ["10.1.2.3"],
  "home.attack.example": ["192.168.1.1"],
  "seventeen.attack.example": ["172.16.5.5"],
  "metadata.attack.example": ["169.254.169.254"],
  "carrier.attack.example": ["100.64.1.1"],
  "six.attack.example": ["::1"],
  "local.attack.example": ["fe80::1"],
  "unique.attack.example": ["fd00:ec2::254"],
  "mapped.attack.example": ["::ffff:10.1.2.3"],
  "nat64.attack.example": ["64:ff9b::a01:203"],
  "teredo.attack.example": ["2001:0:4136:e378:8000:63bf:f5fe:fdfc"],
  "sixtofour.attack.example": ["2002:a01:203::1"],
  "many.attack.example": ["8.8.8.8", "2606:4700::1111", "10.1.2.3"],
  "first.attack.example": ["10.1.2.3", "8.8.8.8"],
  "multicast.attack.example": ["224.0.0.1"],
  "future.attack.example": ["240.0.0.1"],
  "documents.attack.example": ["203.0.113.1"],
};
