import type { Credentials } from "../../lib/source.ts";
import type { AzKey } from "./objects/az_sign.ts";
import { azStore } from "./objects/az_store.ts";
import { objectConnector, unusable } from "./objects/connector.ts";
import { findObjects } from "./objects/find.ts";
import { credentialOf, endpointOf, parseAddress } from "./objects/uri.ts";
import type { Open } from "./types.ts";

/** Reads `az://account/container/blob-or-prefix?endpoint=`. An endpoint ends before the container. */
export const open: Open = ({ source, credentials, dialer, limits }) => {
  const address = parseAddress(source.source_uri ?? "", "az", ["endpoint"]);
  const account = address.bucket;
  const [container = "", ...rest] = address.path.split("/");
  if (!/^[a-z0-9$-]{1,63}$/.test(container))
    throw unusable(
      "source_uri must look like az://account/container/path. A container name has lower-case letters and digits",
    );
  const { sas, endpoint: named } = signatureOf(credentials);
  const endpoint = address.options.get("endpoint") ?? credentialOf(credentials, "endpoint") ?? named;
  const store = azStore({
    account,
    container,
    endpoint: endpointOf(endpoint) ?? azure(account),
    key: sas === undefined ? keyOf(credentials, account) : undefined,
    sas,
    dialer,
  });
  return objectConnector({
    objects: (signal) => findObjects(store, rest.join("/"), signal),
    nameOf: ({ key }) => store.prefix + key,
    open: store.open,
    limits,
  });
};

function azure(account: string): URL {
  if (!/^[a-z0-9]{3,24}(-secondary)?$/.test(account))
    throw unusable("source_uri: the account name must have 3 to 24 lower-case letters and digits");
  return new URL(`https://${account}.blob.core.windows.net`);
}

/** Reads the query of a shared access address. It may come with an endpoint. */
function signatureOf(credentials: Credentials) {
  const text = credentialOf(credentials, "sas_token")?.replace(/^\?/, "");
  if (text === undefined) return { sas: undefined, endpoint: undefined };
  const query = new URLSearchParams(text.replaceAll("+", "%2B")); // a signature has no spaces
  const endpoint = query.get("endpoint") ?? undefined;
  query.delete("endpoint");
  if (!query.has("sig"))
    throw unusable("credentials.sas_token has no `sig` parameter. Paste the whole token", "/credentials/sas_token");
  return { sas: query.toString(), endpoint };
}

function keyOf(credentials: Credentials, account: string): AzKey | undefined {
  const text = credentialOf(credentials, "account_key");
  if (text === undefined) return undefined;
  const key = Buffer.from(text, "base64");
  if (key.byteLength === 0 || !/^[A-Za-z0-9+/]+=*$/.test(text))
    throw unusable(
      "credentials.account_key is not base64. Paste one of the account's two keys",
      "/credentials/account_key",
    );
  return { account: credentialOf(credentials, "account_name") ?? account, key };
}
