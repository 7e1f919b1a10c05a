import type { Credentials } from "../../../lib/source.ts";
import { SourceError } from "../types.ts";

export type Address = { bucket: string; path: string; options: Map<string, string> };

const fault = (message: string, param = "/source_uri") => new SourceError("invalid_source", message, param);

/** Parses `scheme://bucket/path?option=value`. The path is used as written; only options are percent-decoded. */
export function parseAddress(uri: string, scheme: string, allowed: readonly string[]): Address {
  const [, bucket = "", path = "", query = ""] =
    new RegExp(`^${scheme}://([^/?]*)/?([^?]*)(\\?.*)?$`, "s").exec(uri) ?? [];
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$/.test(bucket))
    throw fault(
      `source_uri must look like ${scheme}://bucket/path. A bucket name has letters, digits, dots and hyphens`,
    );
  const options = new Map(new URLSearchParams(query));
  for (const name of options.keys())
    if (!allowed.includes(name)) throw fault(`source_uri has an unknown option: ${name}. Use ${allowed.join(", ")}`);
  refuseDots(path);
  return { bucket, path, options };
}

/** No URL can contain such a key: every parser resolves it. */
export function refuseDots(key: string) {
  if (key.split("/").some((part) => part === "." || part === ".."))
    throw fault(`${key} has a path part . or .., which HTTP cannot request. Rename it`);
}

/** Returns an option of the address, or the credential with the same name. */
export function optionOf({ options }: Address, credentials: Credentials, name: string): string | undefined {
  return options.get(name) ?? credentialOf(credentials, name);
}

export function credentialOf(credentials: Credentials, ...names: string[]): string | undefined {
  for (const name of names) {
    const value = credentials[name];
    if (value === undefined || value === null || value === "") continue;
    if (typeof value !== "string") throw fault(`credentials.${name} must be a string`, `/credentials/${name}`);
    return value;
  }
  return undefined;
}

/** Parses an http(s) origin with an optional path, without a slash at its end. */
export function endpointOf(text: string | undefined): URL | undefined {
  if (text === undefined) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.search !== "" || url.username !== "" || url.password !== "")
    throw fault("endpoint must be an http(s) address such as https://minio.lab:9000, without a query");
  url.hostname = url.hostname.replace(/\.$/, "");
  url.pathname = url.pathname.replace(/\/+$/, "");
  return url;
}

/** Rejects one of two credentials that need each other. */
export function requireBoth(credentials: Credentials, first: string, second: string) {
  const [a, b] = [credentialOf(credentials, first), credentialOf(credentials, second)];
  if (a !== undefined && b === undefined)
    throw fault(`credentials.${second} is missing. Set it with credentials.${first}`, `/credentials/${second}`);
  if (a === undefined && b !== undefined)
    throw fault(`credentials.${first} is missing. Set it with credentials.${second}`, `/credentials/${first}`);
}
