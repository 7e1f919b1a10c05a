import { errorCode } from "../files.ts";

/**
 * Public authorities and a private one beside them. Both at once would be hundreds of certificates to read for every
 * request, so one after the other: a handshake fails before anything of the request is sent. Which of them a host has
 * is remembered, as a guess where to begin and nothing more.
 */
const UNKNOWN_ISSUER = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);
const MOST_HOSTS = 10_000;

/** Hosts with ports, as asked for, that the public authorities vouch for. Others are taken for the operator's own. */
export type PublicHosts = Set<string>;
export type Authority = { ca: string | undefined; publicHosts: PublicHosts };

/** `send` under the public authorities (undefined), or under `ca`. */
export async function trusting<T>(
  host: string,
  { ca, publicHosts }: Authority,
  send: (ca: string | undefined) => Promise<T>,
): Promise<T> {
  if (ca === undefined) return await send(undefined);
  const isPublic = publicHosts.has(host);
  try {
    return await send(isPublic ? undefined : ca);
  } catch (error) {
    if (!UNKNOWN_ISSUER.has(errorCode(error) ?? "")) throw error;
  }
  const answer = await send(isPublic ? ca : undefined);
  if (isPublic) publicHosts.delete(host);
  else if (publicHosts.size < MOST_HOSTS) publicHosts.add(host);
  return answer;
}
