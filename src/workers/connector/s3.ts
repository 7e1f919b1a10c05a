import { objectConnector, unusable } from "./objects/connector.ts";
import { findObjects } from "./objects/find.ts";
import { s3Store } from "./objects/s3_store.ts";
import { credentialOf, endpointOf, optionOf, parseAddress, requireBoth } from "./objects/uri.ts";
import type { Open } from "./types.ts";

const OPTIONS = ["endpoint", "region", "path_style"];

/** Reads `s3://bucket/key-or-prefix?endpoint=&region=&path_style=`. */
export const open: Open = ({ source, credentials, dialer, limits }) => {
  const address = parseAddress(source.source_uri ?? "", "s3", OPTIONS);
  const region = optionOf(address, credentials, "region") ?? "us-east-1";
  if (!/^[a-z0-9-]{1,40}$/.test(region)) throw unusable("region must look like eu-central-1");
  const endpoint = endpointOf(optionOf(address, credentials, "endpoint"));
  const style = optionOf(address, credentials, "path_style") ?? String(endpoint !== undefined);
  if (style !== "true" && style !== "false") throw unusable("path_style must be true or false");
  const store = s3Store(
    {
      bucket: address.bucket,
      endpoint: endpoint ?? amazon(region),
      region,
      pathStyle: style === "true",
      keys: keysOf(credentials),
      prefix: `s3://${address.bucket}/`,
      regionHint: "add ?region=",
    },
    dialer,
  );
  return objectConnector({
    objects: (signal) => findObjects(store, address.path, signal),
    nameOf: ({ key }) => store.prefix + key,
    open: store.open,
    limits,
  });
};

const amazon = (region: string) =>
  new URL(`https://s3.${region}.amazonaws.com${region.startsWith("cn-") ? ".cn" : ""}`);

function keysOf(credentials: Parameters<typeof credentialOf>[0]) {
  const accessKeyId = credentialOf(credentials, "access_key_id", "aws_access_key_id");
  const secretAccessKey = credentialOf(credentials, "secret_access_key", "aws_secret_access_key");
  const sessionToken = credentialOf(credentials, "session_token", "aws_session_token");
  const keys = { access_key_id: accessKeyId, secret_access_key: secretAccessKey };
  requireBoth(keys, "access_key_id", "secret_access_key");
  if (accessKeyId === undefined || secretAccessKey === undefined) return undefined;
  return { accessKeyId, secretAccessKey, ...(sessionToken === undefined ? {} : { sessionToken }) };
}
