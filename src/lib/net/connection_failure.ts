/** Why a connection failed, in words. The runtime's own words name its options and repeat the address. */
const REASONS: readonly [code: RegExp, words: string][] = [
  [/^(ECONNREFUSED|ConnectionRefused)$/, "the connection was refused"],
  [
    /^(ECONNRESET|ConnectionClosed|EPIPE|ERR_STREAM_PREMATURE_CLOSE|UND_ERR_SOCKET)$/,
    "the other side closed the connection",
  ],
  [/^(ETIMEDOUT|ConnectionTimeout|TimeoutError|Timeout|ABORT_ERR|23)$/, "no answer came in time"],
  [/^(ENOTFOUND|EAI_AGAIN|DNS_\w+|DNSLookupFailed)$/, "the name has no address"],
  [/^(ENETUNREACH|EHOSTUNREACH|EADDRNOTAVAIL|FailedToOpenSocket)$/, "the address cannot be reached"],
  [/^(ENOENT|EACCES)$/, "the socket of the server cannot be opened"],
  [/^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED\w*)$/, "its certificate is signed by itself"],
  [/^CERT_HAS_EXPIRED$/, "its certificate has expired"],
  [/ALTNAME|HOSTNAME/, "its certificate is for another name"],
  [/CERT|UNABLE_TO_VERIFY|SIGNATURE|ISSUER/, "its certificate is not trusted"],
  [/TLS|SSL|EPROTO/, "TLS failed"],
  [/^(InvalidHTTPResponse|HPE_\w+|Malformed\w*|ZlibError|DecompressionError)$/, "the answer is not HTTP"],
];

/** An error of the runtime has a code. Without one that is known, its own message is ours. */
export function connectionFailure(error: unknown): string {
  const { code, name, message } = error as { code?: unknown; name?: unknown; message?: unknown };
  const known = REASONS.find(([pattern]) =>
    [code, name].some((each) => typeof each === "string" && pattern.test(each)),
  );
  if (known) return known[1];
  return typeof code === "string" ? `the connection failed (${code})` : wordsOf(String(message ?? error));
}

/** Phrases of the runtime in an error without a code. */
function wordsOf(message: string): string {
  if (/socket connection was closed/i.test(message)) return "the other side closed the connection";
  if (/Unable to connect/i.test(message)) return "the connection failed";
  return message;
}
