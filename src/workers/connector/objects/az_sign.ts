import { createHmac } from "node:crypto";

export type AzKey = { account: string; key: Buffer };

/** The headers that the signature covers, in its order. An absent one is an empty line. */
const SIGNED_HEADERS = [
  "content-encoding",
  "content-language",
  "content-length",
  "content-md5",
  "content-type",
  "date",
  "if-modified-since",
  "if-match",
  "if-none-match",
  "if-unmodified-since",
  "range",
];

/**
 * Returns the header `Authorization` of a request without a body, signed with the account's key (Azure's "Shared Key").
 */
export function sharedKey({ account, key }: AzKey, method: string, url: URL, headers: Record<string, string>): string {
  const azureHeaders = Object.keys(headers)
    .filter((name) => name.startsWith("x-ms-"))
    .sort()
    .map((name) => `${name}:${headers[name]}\n`);
  const query = new Map<string, string[]>();
  for (const [name, value] of url.searchParams)
    query.set(name.toLowerCase(), [...(query.get(name.toLowerCase()) ?? []), value]);
  const parameters = [...query.keys()].sort().map((name) => `\n${name}:${query.get(name)?.sort().join(",")}`);
  const standard = SIGNED_HEADERS.map((name) => headers[name] ?? "");
  const text = `${[method, ...standard].join("\n")}\n${azureHeaders.join("")}/${account}${url.pathname}${parameters.join("")}`;
  return `SharedKey ${account}:${createHmac("sha256", key).update(text, "utf8").digest("base64")}`;
}
