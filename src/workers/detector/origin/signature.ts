/**
 * The signature of a manifest. Integrity: the signer's key signed the claim, and the claim has the hash of every
 * assertion. Trust is a different question: whether the lab trusts the signer's certificate.
 */
import type { X509Certificate } from "node:crypto";
import { asList, type Cbor, type CborMap, isMap } from "./cbor.ts";
import { distrust, signerName } from "./certificates.ts";
import { type Verdict, verifySignature } from "./cose.ts";
import type { Box } from "./jumbf.ts";

export type Signature = {
  valid: boolean | null;
  trusted: boolean | null;
  signer: string | null;
  problem: string | null;
};

export const ALGORITHMS = { sha256: "sha256", sha384: "sha384", sha512: "sha512" } as const;

type Trust = { certificates: readonly X509Certificate[] | null; nowMs: number };

/** Returns null if the manifest has no signature. */
export function checkSignature(manifest: Box, claim: Cbor, assertions: readonly Box[], trust: Trust): Signature | null {
  const cose = contentOf(manifest, /^c2pa\.signature$/);
  const signed = contentOf(manifest, /^c2pa\.claim(\.v\d+)?$/);
  if (!cose || !signed || !isMap(claim)) return null;
  try {
    return judge(verifySignature(cose, signed), claim, assertions, trust);
  } catch {
    return unknown("The signature cannot be read");
  }
}

const unknown = (problem: string): Signature => ({ valid: null, trusted: null, signer: null, problem });

function judge(verdict: Verdict, claim: CborMap, assertions: readonly Box[], trust: Trust): Signature {
  if (verdict.valid === null) return unknown(verdict.problem);
  const signer = signerName(verdict.chain);
  const broken = verdict.valid ? changedAssertion(claim, assertions) : "The signature does not fit the claim";
  // An invalid signature says nothing about its signer: anyone can copy a certificate.
  if (broken) return { valid: false, trusted: null, signer, problem: broken };
  if (!trust.certificates) return { valid: true, trusted: null, signer, problem: null };
  const problem = distrust(verdict.chain, trust.certificates, trust.nowMs);
  return { valid: true, trusted: problem === null, signer, problem };
}

/** Returns what is wrong with the first assertion that differs from the claim, or null. */
function changedAssertion(claim: CborMap, assertions: readonly Box[]): string | null {
  const lists = ["assertions", "created_assertions", "gathered_assertions"].flatMap((name) => asList(claim[name]));
  const redacted = asList(claim["redacted_assertions"]).length;
  const references = lists.filter(isMap);
  const named = new Set<string>();
  let missing = 0;
  for (const { url, hash, alg } of references) {
    const label = typeof url === "string" ? url.slice(url.lastIndexOf("/") + 1) : "";
    const box = assertions.find((assertion) => assertion.label === label);
    if (!box) missing++;
    else if (!hasHash(box.body, hash, alg ?? claim["alg"])) return `The assertion ${shorten(label)} was changed`;
    named.add(label);
  }
  if (missing > redacted) return "An assertion of the claim is missing";
  const extra = assertions.find(({ label }) => !named.has(label));
  return extra ? `The assertion ${shorten(extra.label)} is not part of the claim` : null;
}

function hasHash(body: Uint8Array, hash: Cbor | undefined, alg: Cbor | undefined): boolean {
  const algorithm = ALGORITHMS[String(alg) as keyof typeof ALGORITHMS];
  if (!algorithm || !(hash instanceof Uint8Array)) return false;
  return new Bun.CryptoHasher(algorithm).update(body).digest().equals(hash);
}

const contentOf = (manifest: Box, label: RegExp) =>
  manifest.children.find((child) => label.test(child.label))?.content.find(({ type }) => type === "cbor")?.body;
const shorten = (label: string) => (label.length > 80 ? `${label.slice(0, 80)}…` : label);
