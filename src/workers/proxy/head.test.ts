import { expect, test } from "bun:test";
import { parseHead } from "./head.ts";

test("a tunnel has a host and a port, and nothing is sent ahead", () => {
  const request = parseHead("CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org:443");
  expect(request).toEqual({ url: "https://pypi.org:443/", isTunnel: true, forward: "" });
  expect(parseHead("CONNECT [2606:4700::1]:443 HTTP/1.1")?.url).toBe("https://[2606:4700::1]:443/");
});

test("a plain request is sent with its path, its own host, and without fields for the proxy", () => {
  const head =
    "GET http://example.org/a?b=1 HTTP/1.1\r\nHost: other.org\r\nProxy-Connection: keep-alive\r\nConnection: x\r\nAccept: */*";
  expect(parseHead(head)).toEqual({
    url: "http://example.org/a?b=1",
    isTunnel: false,
    forward: "GET /a?b=1 HTTP/1.1\r\nhost: example.org\r\nAccept: */*\r\nconnection: close\r\n\r\n",
  });
});

test.each([
  ["a path alone", "GET / HTTP/1.1"],
  ["a tunnel without a port", "CONNECT pypi.org HTTP/1.1"],
  ["a tunnel with a user", "CONNECT me@pypi.org:443 HTTP/1.1"],
  ["a tunnel with a path", "CONNECT pypi.org/x:443 HTTP/1.1"],
  ["https without a tunnel", "GET https://example.org/ HTTP/1.1"],
  ["another scheme", "GET ftp://example.org/ HTTP/1.1"],
  ["a line that hides another one", "GET http://example.org/ HTTP/1.1\r\nAccept: a\nHost: b"],
  ["noise", "\u0016\u0003\u0001"],
])("%s is not a request to a proxy", (_what, head) => expect(parseHead(head)).toBeUndefined());
