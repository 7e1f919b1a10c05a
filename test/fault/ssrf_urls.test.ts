import { describe, expect, test } from "bun:test";
import { judgeUrl, PUBLIC_ONLY } from "../../src/platform/network/address.ts";

const passes = (url: string) => judgeUrl(url, PUBLIC_ONLY, { allowHttp: true }).allowed;

describe("a URL that two readers could read differently is refused", () => {
  const INSIDE = "127.0.0.1";
  test.each([
    [
      "user names",
      [
        ...[`https://example.com@${INSIDE}`, `https://${INSIDE}@example.com`, "https://a:b@example.com"],
        ...["https://@example.com", "https://:@example.com", "https://a@b@example.com"],
        ...[`https://example.com:443@${INSIDE}`, `https://${INSIDE}:443@example.com`],
        ...[`https://${INSIDE}%2f@example.com`, `https://example.com%40${INSIDE}@example.com`],
      ],
    ],
    [
      "backslashes",
      [
        "https:\\\\example.com",
        `https://example.com\\@${INSIDE}`,
        `https://${INSIDE}\\@example.com`,
        "https://example.com\\.localhost",
        "https://example.com/\\x",
        "https:/\\example.com",
      ],
    ],
    [
      "tabs, line ends and other control characters",
      [
        "https://exa\tmple.com",
        "https://example.com\n",
        "\nhttps://example.com",
        "https://example.com/\r\nHost: x",
        "ht\ntps://example.com",
        `https://127.\n0.0.1`,
        "https://example.com\u0000",
        "https://example.com/\u0000",
        "\u0001https://example.com",
        "https://example.com/\u007f",
      ],
    ],
    [
      "spaces around it or in its host",
      [
        " https://example.com",
        "https://example.com ",
        "https://exa mple.com",
        "https:// example.com",
        "https://example.com :443/",
      ],
    ],
    [
      "slashes missing or too many",
      [
        "https:example.com",
        "https:/example.com",
        "https:///example.com",
        "https:////example.com",
        "//example.com",
        "https:",
      ],
    ],
    [
      "zone ids",
      ["https://[fe80::1%eth0]", "https://[fe80::1%25eth0]", "https://[::1%lo]", "https://[2606:4700::1111%25eth0]"],
    ],
    [
      "brackets and other nonsense",
      [
        "https://[::1",
        "https://::1]",
        "https://[]",
        "https://[v1.a]",
        "https://[127.0.0.1]",
        "https://[::ffff:0x7f.1]",
        "https://[::ffff:127.1]",
        "https://1.1.1.1..",
        "https://a..b",
        "https://.",
        "https://256.1.1.1",
        "https://4294967296",
        "https://08.0.0.1",
        "https://example.com%00.localhost",
        "https://example.com%2flocalhost",
        "https://xn--",
        `https://${"a".repeat(64)}.example`,
      ],
    ],
    [
      "another scheme",
      [
        ...["file:///etc/passwd", "unix:///run/docker.sock", "data:,x", "javascript:1", "s3://bucket"],
        ...["ftp", "gopher", "dict", "ldap", "ws", "wss", "httpss", "https+unix"].map((it) => `${it}://example.com/`),
        ...["blob", "view-source", "jar", "feed", "url"].map((it) => `${it}:https://example.com/`),
      ],
    ],
    [
      "ports of other protocols",
      [
        0, 1, 7, 9, 19, 21, 22, 23, 25, 53, 69, 110, 111, 135, 139, 143, 179, 389, 465, 514, 587, 636, 993, 995, 2049,
        5060, 6000, 6667, 6697, 10080, 65536, -1,
      ].map((port) => `https://example.com:${port}/`),
    ],
  ] as const)("%s", (_what, urls) => expect(urls.filter(passes)).toEqual([]));

  test("a fragment or a query with an @, or a usual port, is not refused", () => {
    const good = [
      ...["https://example.com/?mail=a@b.example", "https://example.com/@user", "https://example.com#@x"],
      ...["https://bücher.example/", "HTTPS://Example.COM/", "https://example.com/a%20b", "http://example.com"],
      ...[80, 443, 3000, 8080, 8443, 9000, 65535].map((port) => `https://example.com:${port}`),
    ];
    expect(good.filter((url) => !passes(url))).toEqual([]);
    expect(passes("https://example.com:443/a b.gguf")).toBe(true);
  });
});
