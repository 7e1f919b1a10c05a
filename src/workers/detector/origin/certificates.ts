/** Certificates of a signer: who signed, and whether the chain leads to a certificate that the lab trusts. */
import { X509Certificate } from "node:crypto";
import { publicKeyOf } from "./public_key.ts";

export type Chain = readonly [signer: X509Certificate, ...issuers: X509Certificate[]];

const MAX_CERTIFICATES = 10;
const MAX_NAME = 200;
/** Purposes that C2PA allows: claim signing, signing of documents, protection of mail. */
const PURPOSES = ["1.3.6.1.4.1.62558.2.1", "1.3.6.1.5.5.7.3.36", "1.3.6.1.5.5.7.3.4"];

/** Reads certificates in DER, the signer's first. Returns null if one cannot be read. */
export function readChain(items: readonly Uint8Array[]): Chain | null {
  if (items.length === 0 || items.length > MAX_CERTIFICATES) return null;
  try {
    const [signer, ...issuers] = items.map((der) => new X509Certificate(der));
    return [signer!, ...issuers];
  } catch {
    return null;
  }
}

/** Reads a trust list: certificates in PEM, with any text between them. Throws if it has none, or one is unreadable. */
export function readTrustList(pem: string): X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g);
  if (!blocks) throw new Error("the file has no certificate");
  return blocks.map((block) => new X509Certificate(block));
}

/** The organization of the signer, or the common name. */
export function signerName([signer]: Chain): string | null {
  const fields = new Map(signer.subject.split("\n").map((line) => line.split(/=(.*)/s) as [string, string]));
  return (fields.get("O") ?? fields.get("CN") ?? null)?.slice(0, MAX_NAME) ?? null;
}

/** Returns null if the chain is trusted at this time, else the reason why it is not. */
export function distrust(chain: Chain, trusted: readonly X509Certificate[], nowMs: number): string | null {
  const [signer, ...issuers] = chain;
  if (signer.ca) return "The signer's certificate is that of an authority";
  if (!(signer.keyUsage ?? []).some((purpose) => PURPOSES.includes(purpose)))
    return "The signer's certificate is not meant for signing content";
  for (const [i, certificate] of chain.entries()) {
    const late = outsideValidity(certificate, nowMs);
    if (late) return late;
    if (trusted.some((anchor) => anchor.raw.equals(certificate.raw))) return null;
    const anchor = trusted.find((candidate) => isIssuedBy(certificate, candidate));
    if (anchor) return outsideValidity(anchor, nowMs);
    const next = issuers[i];
    if (!next || !isIssuedBy(certificate, next)) break;
  }
  return "The chain of certificates does not lead to one in the trust list";
}

const isIssuedBy = (certificate: X509Certificate, issuer: X509Certificate) =>
  issuer.ca && certificate.checkIssued(issuer) && certificate.verify(publicKeyOf(issuer));

function outsideValidity(certificate: X509Certificate, nowMs: number): string | null {
  if (nowMs < Date.parse(certificate.validFrom)) return "A certificate of the chain is not valid yet";
  if (nowMs > Date.parse(certificate.validTo)) return "A certificate of the chain has expired";
  return null;
}
