import type { Credentials } from "../../../lib/source.ts";
import { SourceError } from "../types.ts";

export type Address = { bucket: string; path: string; options: Map<string, string> };

const fault = (message: string, param = "/source_uri") => new SourceError("invalid_source", message, param);

/** `scheme://bucket/path?option=value`. The path is taken as it is written; only options are percent-decoded. */
export function parseAddress(uri: string, scheme: string, allowed: readonly string[]): Address {
  const [, bucket = "", path = "", query = ""] =
    new RegExp(`^${scheme}://([^/?]*)/?([^?]*)(\\?.*)?$`, "s").exec(uri) ?? [];
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$/.test(bucket))
    throw fault(
      `source_uri must look like ${scheme}://bucket/path, with a bucket of letters, digits, dots and hyphens`,
    );
  const options = new Map(new URLSearchParams(query));
  for (const name of options.keys())
    if (!allowed.includes(name))
      throw fault(`source_uri has an option that is not known: ${name}. Known are ${allowed.join(", ")}`);
  refuseDots(path);
  return { bucket, path, options };
}

/** No URL can carry such a key: every parser resolves it. */
export function refuseDots(key: string) {
  if (key.split("/").some((part) => part === "." || part === ".."))
    throw fault(`${key} has a part . or .., which cannot be asked for over HTTP: rename it`);
}

/** An option of the address, or the same name among the credentials. */
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

/** An http(s) origin, perhaps with a path, without a slash at its end. */
export function endpointOf(text: string | undefined): URL | undefined {
  if (text === undefined) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.search !== "" || url.username !== "" || url.password !== "")
    throw fault("endpoint must be an http(s) address such as https://minio.lab:9000, without a query");
  url.hostname = url.hostname.replace(/\.$/, "");
  url.pathname = url.pathname.replace(/\/+$/, "");
  return url;
}

/** Two that make sense only together. */
export function requireBoth(credentials: Credentials, first: string, second: string) {
  const [a, b] = [credentialOf(credentials, first), credentialOf(credentials, second)];
  if (a !== undefined && b === undefined) throw fault(`credentials.${second} is missing`, `/credentials/${second}`);
  if (a === undefined && b !== undefined) throw fault(`credentials.${first} is missing`, `/credentials/${first}`);
}
