/** Requests whose end two readers could see at two places, and such that are none. Each carries a second one inside. */
const CRLF = "\r\n";

export type Framing = {
  name: string;
  /** Everything that is sent over one connection. */
  text: string;
  /**
   * `ambiguous`: refused, and the connection ends. `refused`: no success. `one`: exactly one answer, whatever it is.
   * `plain`: a usual request, answered as one.
   */
  expect: "ambiguous" | "refused" | "one" | "plain";
};

/** `mark` names what the request inside would make; `key` is a good one: only the framing stands in the way. */
export function framings(key: string, mark: (name: string) => string): Framing[] {
  const all: Framing[] = [];
  const inner = (name: string) => {
    const body = JSON.stringify({ name: mark(name) });
    const lines = ["POST /v1/volumes HTTP/1.1", "Host: localhost", `Authorization: Bearer ${key}`];
    return [...lines, "Content-Type: application/json", `Content-Length: ${body.length}`, "", body].join(CRLF);
  };
  const add = (name: string, expect: Framing["expect"], make: (inside: string) => string) =>
    all.push({ name, expect, text: make(inner(name)) });
  const post = (headers: readonly string[], body: string, eol = CRLF) =>
    ["POST /setup HTTP/1.1", "Host: localhost", "Content-Type: application/json", ...headers, "", body].join(eol);
  const chunked = (inside: string) => `0${CRLF}${CRLF}${inside}`;
  const TE = "Transfer-Encoding: chunked";

  add("a length and chunks", "ambiguous", (inside) => post(["Content-Length: 4", TE], chunked(inside)));
  add("chunks and a length", "ambiguous", (inside) => post([TE, "Content-Length: 4"], chunked(inside)));
  add("two lengths", "ambiguous", (inside) =>
    post(["Content-Length: 2", `Content-Length: ${inside.length}`], `{}${inside}`),
  );
  add("two lengths in one header", "ambiguous", (inside) =>
    post([`Content-Length: 2, ${inside.length}`], `{}${inside}`),
  );
  add("a length with a plus", "ambiguous", (inside) => post(["Content-Length: +2"], `{}${inside}`));
  add("a negative length", "ambiguous", (inside) => post(["Content-Length: -2"], `{}${inside}`));
  add("a length in hexadecimals", "ambiguous", (inside) => post(["Content-Length: 0x2"], `{}${inside}`));
  add("a length with a point", "ambiguous", (inside) => post(["Content-Length: 2.0"], `{}${inside}`));
  add("a length beyond all numbers", "ambiguous", (inside) =>
    post([`Content-Length: ${"9".repeat(40)}`], `{}${inside}`),
  );
  add("a length that is none", "ambiguous", (inside) => post(["Content-Length: two"], `{}${inside}`));
  add("a blank before the colon", "ambiguous", (inside) => post(["Content-Length : 2"], `{}${inside}`));
  add("a folded header", "ambiguous", (inside) => post(["X-A: b", " Content-Length: 2"], `{}${inside}`));
  add("a header without a colon", "ambiguous", (inside) => post(["Content-Length 2"], `{}${inside}`));
  add("a header without a name", "ambiguous", (inside) => post([": 2", "Content-Length: 2"], `{}${inside}`));
  add("a zero in a header", "ambiguous", (inside) => post(["X-A: a\u0000b", "Content-Length: 2"], `{}${inside}`));
  add("chunks under another name", "ambiguous", (inside) => post(["Transfer-Encoding: xchunked"], chunked(inside)));
  add("chunks twice", "ambiguous", (inside) => post([TE, TE], chunked(inside)));
  add("chunks and identity", "ambiguous", (inside) => post(["Transfer-Encoding: chunked, identity"], chunked(inside)));
  add("a size of a chunk that is none", "ambiguous", (inside) => post([TE], `zz${CRLF}{}${CRLF}${chunked(inside)}`));
  add("a negative size of a chunk", "ambiguous", (inside) => post([TE], `-2${CRLF}{}${CRLF}${chunked(inside)}`));
  add("a size of a chunk beyond all numbers", "ambiguous", (inside) =>
    post([TE], `${"f".repeat(17)}${CRLF}{}${chunked(inside)}`),
  );
  add("a chunk that is longer than it says", "ambiguous", (inside) =>
    post([TE], `2${CRLF}{}xx${CRLF}${chunked(inside)}`),
  );
  add("no Host", "refused", () => `GET /v1/account HTTP/1.1${CRLF}Authorization: Bearer ${key}${CRLF}${CRLF}`);
  add("a line that is no request", "refused", () => `HELLO${CRLF}${CRLF}`);
  add("HTTP/0.9", "refused", () => `GET /v1/account${CRLF}${CRLF}`);
  add("HTTP/3.0", "refused", () => `GET /healthz HTTP/3.0${CRLF}Host: localhost${CRLF}${CRLF}`);
  add("the preface of HTTP/2", "refused", () => `PRI * HTTP/2.0${CRLF}${CRLF}SM${CRLF}${CRLF}`);
  add("an unknown method", "refused", () => `SMUGGLE /v1/volumes HTTP/1.1${CRLF}Host: localhost${CRLF}${CRLF}`);
  add(
    "TRACE",
    "refused",
    () => `TRACE /v1/account HTTP/1.1${CRLF}Host: localhost${CRLF}Authorization: Bearer ${key}${CRLF}${CRLF}`,
  );
  add("CONNECT", "refused", () => `CONNECT 127.0.0.1:22 HTTP/1.1${CRLF}Host: localhost${CRLF}${CRLF}`);
  add(
    "headers without end",
    "refused",
    () =>
      `GET /v1/account HTTP/1.1${CRLF}Host: localhost${CRLF}${`X-A: ${"b".repeat(1000)}${CRLF}`.repeat(100)}${CRLF}`,
  );
  add(
    "a path without end",
    "refused",
    () => `GET /${"a".repeat(100_000)} HTTP/1.1${CRLF}Host: localhost${CRLF}${CRLF}`,
  );
  add(
    "an upgrade to h2c",
    "one",
    () =>
      `GET /healthz HTTP/1.1${CRLF}Host: localhost${CRLF}Connection: Upgrade, HTTP2-Settings${CRLF}Upgrade: h2c${CRLF}HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA${CRLF}${CRLF}`,
  );
  add(
    "a body of a GET",
    "one",
    (inside) =>
      `GET /healthz HTTP/1.1${CRLF}Host: localhost${CRLF}Content-Length: ${inside.length}${CRLF}${CRLF}${inside}`,
  );
  add("a whole body", "one", (inside) => post([`Content-Length: ${inside.length}`], inside));
  add("a usual request", "plain", () => `GET /healthz HTTP/1.1${CRLF}Host: localhost${CRLF}${CRLF}`);
  return all;
}
