import { UsageError } from "../../../lib/errors.ts";
import { normalizeHost, parseIp } from "../../../lib/net/ip.ts";

/** The value of a flag `--name` that is to be in a certificate. */
export function checkedName(text: string): string {
  const host = normalizeHost(text);
  if (parseIp(text) === undefined && (host === undefined || !/^[a-z0-9.-]+$/.test(host)))
    throw new UsageError(`--name: expected a host name or an address, not ${JSON.stringify(text)}`);
  return host ?? text;
}
