import { join } from "node:path";
import { give, runToEnd } from "./process.ts";

export type Certificate = { caFile: string; certFile: string; keyFile: string };

/** For localhost and 127.0.0.1, signed by an authority of its own; the key belongs to the server's user. */
export function makeCertificate(dir: string): Certificate {
  const at = (name: string) => join(dir, name);
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const authority = ["-subj", "/CN=Verk test authority", "-addext", "basicConstraints=critical,CA:TRUE", "-x509"];
  runToEnd(["openssl", "req", ...key, ...authority, "-days", "2", "-keyout", at("ca.key"), "-out", at("ca.pem")]);
  const names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
  const signed = ["-x509", "-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-addext", "basicConstraints=CA:FALSE"];
  runToEnd([
    "openssl",
    "req",
    ...key,
    ...names,
    ...signed,
    "-days",
    "2",
    "-keyout",
    at("key.pem"),
    "-out",
    at("cert.pem"),
  ]);
  give(at("key.pem"));
  return { caFile: at("ca.pem"), certFile: at("cert.pem"), keyFile: at("key.pem") };
}
