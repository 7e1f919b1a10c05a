/** The certificate and key of the listener. They are read and checked before anything listens with them. */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext, type SecureContextOptions } from "node:tls";
import { UsageError } from "../../lib/errors.ts";
import type { Config } from "../config/config.ts";
import { sha256Bytes } from "../files.ts";

type Settings = Pick<Config["http"], "tls_cert" | "tls_key" | "tls_client_ca">;

export type TlsPair = {
  /** PEM: the certificate of the server first, then its intermediates. */
  readonly cert: string;
  readonly key: string;
  /** PEM of the authorities whose client certificates are accepted; undefined: clients need none. */
  readonly clientCa: string | undefined;
  /** Changes when one of the files does. */
  readonly version: string;
  readonly leaf: X509Certificate;
};

/** Undefined: no certificate is set, so the server speaks plain HTTP. */
export function readTlsPair(http: Settings): TlsPair | undefined {
  if (http.tls_cert === "") return undefined;
  const cert = readText("http.tls_cert", http.tls_cert);
  const key = readText("http.tls_key", http.tls_key);
  const clientCa = http.tls_client_ca === "" ? undefined : readText("http.tls_client_ca", http.tls_client_ca);
  const leaf = certificateIn("http.tls_cert", http.tls_cert, cert);
  if (clientCa !== undefined) certificateIn("http.tls_client_ca", http.tls_client_ca, clientCa);
  if (!leaf.checkPrivateKey(keyIn(http.tls_key, key)))
    throw new UsageError(
      `http.tls_key: the key ${http.tls_key} does not belong to the first certificate of ${http.tls_cert}. ` +
        "Put the certificate of the server first, or name the key that it was made for.",
    );
  checkContext(http.tls_cert, { cert, key, ...(clientCa === undefined ? {} : { ca: clientCa }) });
  return { cert, key, clientCa, version: sha256Bytes([cert, key, clientCa ?? ""].join("\0")), leaf };
}

/** The options of Bun.serve. Bun accepts nothing below TLS 1.2. */
export const serveOptions = ({ cert, key, clientCa }: TlsPair): Bun.TLSOptions => ({
  cert,
  key,
  ...(clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: true }),
});

/** Milliseconds until the certificate ends; negative once it has. */
export const remainingMs = ({ leaf }: TlsPair, nowMs: number) => Date.parse(leaf.validTo) - nowMs;

/** The TLS library itself must accept the files: a listener that fails to open would leave the port closed. */
function checkContext(path: string, options: SecureContextOptions) {
  try {
    createSecureContext(options);
  } catch (cause) {
    throw new UsageError(`http.tls_cert: ${path} cannot be used (${(cause as Error).message})`, 2, { cause });
  }
}

function readText(setting: string, path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new UsageError(`${setting}: cannot read ${path} (${(cause as Error).message})`, 2, { cause });
  }
}

function certificateIn(setting: string, path: string, pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (cause) {
    throw new UsageError(`${setting}: ${path} is not a certificate in PEM format`, 2, { cause });
  }
}

function keyIn(path: string, pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch (cause) {
    throw new UsageError(`http.tls_key: ${path} is not a private key in PEM format without a passphrase`, 2, { cause });
  }
}
