/**
 * Certificates of our own: an authority for this machine, and what it signs. Only `verk tls` loads this file, because the
 * library adds to the global `Reflect`.
 */
import "reflect-metadata"; // @peculiar/x509 needs it, and it must come first
import { createHash, randomBytes } from "node:crypto";
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  Pkcs10CertificateRequestGenerator,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from "@peculiar/x509";
import { parseIp } from "../../lib/net/ip.ts";
import { DAY_MS, HOUR_MS } from "../../lib/units.ts";

/** PEM texts. `key` is PKCS #8, not encrypted. */
export type Issued = { cert: string; key: string };
type Purpose = "server" | "client";

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const; // every TLS client knows it
const SKEW_MS = HOUR_MS; // a client whose clock is a little behind still accepts a new certificate
const CA_DAYS = 3650;

const newKeys = () => crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
const period = (nowMs: number, days: number) => ({
  notBefore: new Date(nowMs - SKEW_MS),
  notAfter: new Date(nowMs + days * DAY_MS),
});

/** A positive serial number of 127 random bits, so that two authorities of one name never share one. */
function newSerial(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toString("hex");
}

async function exported(cert: X509Certificate, { privateKey }: CryptoKeyPair): Promise<Issued> {
  const key = PemConverter.encode(await crypto.subtle.exportKey("pkcs8", privateKey), "PRIVATE KEY");
  return { cert: `${cert.toString("pem")}\n`, key: `${key}\n` };
}

/** An authority that can sign certificates, but no further authority. */
export async function issueAuthority(name: string, nowMs: number): Promise<Issued> {
  const keys = await newKeys();
  const cert = await X509CertificateGenerator.createSelfSigned({
    serialNumber: newSerial(),
    name: [{ CN: [`Verk CA of ${plainName(name)}`] }],
    ...period(nowMs, CA_DAYS),
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return exported(cert, keys);
}

type Request = { names: readonly string[]; days: number; purpose: Purpose; nowMs: number };

/** A certificate for host names and addresses (server), or for one name of a person or machine (client). */
export async function issue(authority: Issued, { names, days, purpose, nowMs }: Request): Promise<Issued> {
  const ca = new X509Certificate(authority.cert);
  const signingKey = await crypto.subtle.importKey("pkcs8", PemConverter.decodeFirst(authority.key), ALGORITHM, false, [
    "sign",
  ]);
  const keys = await newKeys();
  const { serverAuth, clientAuth } = ExtendedKeyUsage;
  const extensions: Extension[] = [
    new BasicConstraintsExtension(false, undefined, true),
    new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
    new ExtendedKeyUsageExtension([purpose === "server" ? serverAuth : clientAuth]),
    await AuthorityKeyIdentifierExtension.create(ca.publicKey),
    await SubjectKeyIdentifierExtension.create(keys.publicKey),
  ];
  if (purpose === "server") extensions.push(alternativeNames(names));
  const cert = await X509CertificateGenerator.create({
    serialNumber: newSerial(),
    subject: [{ CN: [plainName(names[0] ?? "verk")] }],
    issuer: ca.subject,
    ...period(nowMs, days),
    publicKey: keys.publicKey,
    signingKey,
    signingAlgorithm: ALGORITHM,
    extensions,
  });
  return exported(cert, keys);
}

/** A certificate request for host names and addresses (DER), with the key that it is for. */
export async function request(names: readonly string[]): Promise<{ csr: Uint8Array; key: string }> {
  const keys = await newKeys();
  const csr = await Pkcs10CertificateRequestGenerator.create({
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [alternativeNames(names)],
  });
  const key = PemConverter.encode(await crypto.subtle.exportKey("pkcs8", keys.privateKey), "PRIVATE KEY");
  return { csr: new Uint8Array(csr.rawData), key: `${key}\n` };
}

const ACME_IDENTIFIER = "1.3.6.1.5.5.7.1.31";

/** The certificate of a tls-alpn-01 proof (RFC 8737): its extension has the hash of the key authorization. */
export async function issueProof(name: string, keyAuthorization: string, nowMs: number): Promise<Issued> {
  const keys = await newKeys();
  const digest = createHash("sha256").update(keyAuthorization).digest();
  const octets = Buffer.concat([Buffer.from([0x04, digest.length]), digest]); // DER
  const cert = await X509CertificateGenerator.createSelfSigned({
    serialNumber: newSerial(),
    name: [{ CN: [plainName(name)] }],
    ...period(nowMs, 1),
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [alternativeNames([name]), new Extension(ACME_IDENTIFIER, true, octets)],
  });
  return exported(cert, keys);
}

const alternativeNames = (names: readonly string[]) =>
  new SubjectAlternativeNameExtension(
    names.map((value) => ({ type: parseIp(value) === undefined ? ("dns" as const) : ("ip" as const), value })),
  );

/** A common name has at most 64 characters. Others than these would need escapes. */
const plainName = (name: string) => name.replaceAll(/[^\w.: -]/g, "-").slice(0, 50);
