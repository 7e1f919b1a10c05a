import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { secretFile } from "./process.ts";

const FIXTURES = join(import.meta.dir, "../fixtures/tls");

/** For 127.0.0.1; copies, for the server's user may not be let into the checkout. */
export function copyCertificate(dir: string) {
  const caFile = join(dir, "ca.pem");
  const certFile = join(dir, "server.pem");
  copyFileSync(join(FIXTURES, "ca.pem"), caFile);
  copyFileSync(join(FIXTURES, "server.pem"), certFile);
  const keyFile = secretFile(join(dir, "server.key"), readFileSync(join(FIXTURES, "server.key"), "utf8"));
  return { caFile, certFile, keyFile };
}
