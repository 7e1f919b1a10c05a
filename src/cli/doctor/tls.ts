import { statSync } from "node:fs";
import { DAY_MS } from "../../lib/units.ts";
import { isPrivate } from "../../platform/master_key.ts";
import { plainExposure } from "../../platform/tls/exposure.ts";
import { readTlsPair, remainingMs } from "../../platform/tls/pair.ts";
import { type Check, fail, ok, type Scene, warn } from "./check.ts";

const SOON_DAYS = 30;

export const tlsChecks: readonly Check[] = [{ name: "TLS", run: tls }];

function tls({ config: { http } }: Scene) {
  const exposed = plainExposure(http);
  if (exposed) return warn(exposed.detail, exposed.fix);
  const pair = readTlsPair(http);
  if (pair === undefined) return ok("off: only this machine can connect");
  const days = Math.floor(remainingMs(pair, Date.now()) / DAY_MS);
  const renew =
    "renew it: `verk tls init` makes a new one, if the certificate is from Verk; the server takes it by itself";
  if (days < 0) return fail(`the certificate ${http.tls_cert} ended on ${pair.leaf.validTo}`, renew);
  const { mode, uid } = statSync(http.tls_key);
  if (!isPrivate(mode, uid) && (mode & 0o007) !== 0)
    return warn(`every user of this machine can read the key ${http.tls_key}`, `chmod 640 ${http.tls_key}`);
  if (days < SOON_DAYS) return warn(`the certificate ${http.tls_cert} ends in ${days} days`, renew);
  return ok(`${pair.leaf.subject.replaceAll("\n", ", ")}, valid for ${days} days`);
}
