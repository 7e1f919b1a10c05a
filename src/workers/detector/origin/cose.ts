/** Signatures in COSE (RFC 9052) over content that is stored beside them. */
import { constants, type KeyObject, verify } from "node:crypto";
import { asList, type CborMap, isMap, readCbor } from "./cbor.ts";
import { type Chain, readChain } from "./certificates.ts";
import { publicKeyOf } from "./public_key.ts";

export type Verdict = { valid: boolean; chain: Chain } | { valid: null; problem: string };

type Algorithm = { hash: string | null; key: string; pss?: boolean };

/** By the numbers of RFC 9053. */
const ALGORITHMS: Record<string, Algorithm> = {
  "-7": { hash: "sha256", key: "ec" },
  "-35": { hash: "sha384", key: "ec" },
  "-36": { hash: "sha512", key: "ec" },
  "-37": { hash: "sha256", key: "rsa", pss: true },
  "-38": { hash: "sha384", key: "rsa", pss: true },
  "-39": { hash: "sha512", key: "rsa", pss: true },
  "-8": { hash: null, key: "ed25519" },
};
const ALGORITHM = "1";
const CHAIN = ["33", "x5chain"];

/** Checks a COSE_Sign1 whose payload is `content`. The certificates in it say which key signed; they are not judged here. */
export function verifySignature(cose: Uint8Array, content: Uint8Array): Verdict {
  const [protectedBytes, unprotectedMap, , signature] = asList(readCbor(cose));
  if (!(protectedBytes instanceof Uint8Array) || !(signature instanceof Uint8Array))
    return { valid: null, problem: "The signature cannot be read" };
  const headers: CborMap[] = [readCbor(protectedBytes), unprotectedMap].map((value) => (isMap(value) ? value : {}));
  const algorithm = ALGORITHMS[String(headers[0]![ALGORITHM])]; // an algorithm that is not signed over does not count
  if (!algorithm) return { valid: null, problem: "The signature's algorithm is not supported" };
  const certificates = headers
    .flatMap((header) => CHAIN.map((name) => header[name]))
    .find((value) => value !== undefined);
  const chain = readChain([certificates].flat().filter((item) => item instanceof Uint8Array));
  if (!chain) return { valid: null, problem: "The signer's certificate cannot be read" };
  const key = publicKeyOf(chain[0]);
  if (!fits(key, algorithm)) return { valid: false, chain };
  return { valid: holds(algorithm, key, signedBytes(protectedBytes, content), signature), chain };
}

const fits = ({ asymmetricKeyType }: KeyObject, { key }: Algorithm) => asymmetricKeyType === key;

function holds({ hash, pss }: Algorithm, key: KeyObject, signed: Uint8Array, signature: Uint8Array): boolean {
  const padding = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST };
  const options = pss ? { key, ...padding } : hash ? { key, dsaEncoding: "ieee-p1363" as const } : key;
  try {
    return verify(hash, signed, options, signature);
  } catch {
    return false; // a signature of the wrong length
  }
}

/** The structure that is signed: a name, the protected headers, no further data, and the content. */
function signedBytes(headers: Uint8Array, content: Uint8Array): Uint8Array {
  const name = new TextEncoder().encode("Signature1");
  return Buffer.concat([
    Buffer.from([0x84]),
    lengthOf(3, name.length),
    name,
    lengthOf(2, headers.length),
    headers,
    lengthOf(2, 0),
    lengthOf(2, content.length),
    content,
  ]);
}

function lengthOf(major: number, length: number): Buffer {
  const kind = major << 5;
  if (length < 24) return Buffer.from([kind | length]);
  if (length < 0x100) return Buffer.from([kind | 24, length]);
  if (length < 0x10000) return Buffer.from([kind | 25, length >> 8, length & 255]);
  const wide = Buffer.from([kind | 26, 0, 0, 0, 0]);
  wide.writeUInt32BE(length, 1);
  return wide;
}
