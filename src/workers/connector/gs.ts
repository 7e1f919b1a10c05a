import type { Credentials } from "../../lib/source.ts";
import type { Dialer } from "./dialer.ts";
import { googleToken, readServiceAccount } from "./google_token.ts";
import { objectConnector } from "./objects/connector.ts";
import { findObjects } from "./objects/find.ts";
import { type Authorize, gsStore } from "./objects/gs_store.ts";
import { s3Store } from "./objects/s3_store.ts";
import { credentialOf, endpointOf, optionOf, parseAddress, requireBoth } from "./objects/uri.ts";
import type { Open } from "./types.ts";

const SCOPE = "https://www.googleapis.com/auth/devstorage.read_only";
const GOOGLE = new URL("https://storage.googleapis.com");

/** Reads `gs://bucket/object-or-prefix?endpoint=`. */
export const open: Open = ({ source, credentials, dialer, limits }) => {
  const address = parseAddress(source.source_uri ?? "", "gs", ["endpoint"]);
  const { bucket } = address;
  const endpoint = endpointOf(optionOf(address, credentials, "endpoint")) ?? GOOGLE;
  requireBoth(credentials, "access_key_id", "secret_access_key");
  const accessKeyId = credentialOf(credentials, "access_key_id");
  const secretAccessKey = credentialOf(credentials, "secret_access_key");
  const store =
    accessKeyId === undefined || secretAccessKey === undefined
      ? gsStore({ bucket, endpoint, dialer, authorize: authorizing(credentials, dialer) })
      : s3Store(hmac(bucket, endpoint, { accessKeyId, secretAccessKey }), dialer);
  return objectConnector({
    objects: (signal) => findObjects(store, address.path, signal),
    nameOf: ({ key }) => store.prefix + key,
    open: store.open,
    limits,
  });
};

/** HMAC keys work only with the XML API, which is the S3 protocol. */
const hmac = (bucket: string, endpoint: URL, keys: { accessKeyId: string; secretAccessKey: string }) => ({
  bucket,
  endpoint,
  keys,
  region: "auto",
  pathStyle: true,
  prefix: `gs://${bucket}/`,
  regionHint: "use the endpoint of ",
});

function authorizing(credentials: Credentials, dialer: Dialer): Authorize {
  const token = credentialOf(credentials, "access_token");
  if (token !== undefined) return async () => `Bearer ${token}`;
  const key = credentials["service_account"] ?? (credentials["private_key"] === undefined ? undefined : credentials);
  if (key === undefined || key === null) return async () => undefined;
  const tokens = googleToken(readServiceAccount(key), SCOPE, dialer);
  return async (signal) => `Bearer ${await tokens(signal)}`;
}
