import type { Credentials } from "../../lib/source.ts";
import type { AzKey } from "./objects/az_sign.ts";
import { azStore } from "./objects/az_store.ts";
import { objectConnector, unusable } from "./objects/connector.ts";
import { findObjects } from "./objects/find.ts";
import { credentialOf, endpointOf, parseAddress } from "./objects/uri.ts";
import type { Open } from "./types.ts";

/** `az://account/container/blob-or-prefix?endpoint=`; an endpoint ends where the container would come. */
export const open: Open = ({ source, credentials, dialer, limits }) => {
  const address = parseAddress(source.source_uri ?? "", "az", ["endpoint"]);
  const account = address.bucket;
  const [container = "", ...rest] = address.path.split("/");
  if (!/^[a-z0-9$-]{1,63}$/.test(container))
    throw unusable("source_uri must look like az://account/container/path; a container has small letters and digits");
  const { sas, endpoint: named } = signatureOf(credentials);
  const given = address.options.get("endpoint") ?? credentialOf(credentials, "endpoint") ?? named;
  const store = azStore({
    account,
    container,
    endpoint: endpointOf(given) ?? azure(account),
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
    throw unusable("source_uri: the account has 3 to 24 small letters and digits");
  return new URL(`https://${account}.blob.core.windows.net`);
}

/** What follows the question mark of a shared address. An endpoint may have come with it. */
function signatureOf(credentials: Credentials) {
  const text = credentialOf(credentials, "sas_token")?.replace(/^\?/, "");
  if (text === undefined) return { sas: undefined, endpoint: undefined };
  const query = new URLSearchParams(text.replaceAll("+", "%2B")); // a signature has no spaces
  const endpoint = query.get("endpoint") ?? undefined;
  query.delete("endpoint");
  if (!query.has("sig"))
    throw unusable("credentials.sas_token has no sig: paste the whole token", "/credentials/sas_token");
  return { sas: query.toString(), endpoint };
}

function keyOf(credentials: Credentials, account: string): AzKey | undefined {
  const text = credentialOf(credentials, "account_key");
  if (text === undefined) return undefined;
  const key = Buffer.from(text, "base64");
  if (key.byteLength === 0 || !/^[A-Za-z0-9+/]+=*$/.test(text))
    throw unusable(
      "credentials.account_key is no base64: paste one of the account's two keys",
      "/credentials/account_key",
    );
  return { account: credentialOf(credentials, "account_name") ?? account, key };
}
