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
const publicly = new Set<string>(); // host and port, as asked for; others are taken for the operator's own at first

/** `send` under the public authorities (undefined), or under `ca`. */
export async function trusting<T>(
  host: string,
  ca: string | undefined,
  send: (ca: string | undefined) => Promise<T>,
): Promise<T> {
  if (ca === undefined) return await send(undefined);
  const isPublic = publicly.has(host);
  try {
    return await send(isPublic ? undefined : ca);
  } catch (error) {
    if (!UNKNOWN_ISSUER.has(errorCode(error) ?? "")) throw error;
  }
  const answer = await send(isPublic ? ca : undefined);
  if (isPublic) publicly.delete(host);
  else if (publicly.size < MOST_HOSTS) publicly.add(host);
  return answer;
}
