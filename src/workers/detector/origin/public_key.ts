/**
 * The public key of a certificate. BoringSSL rejects RSA keys that are marked for PSS alone, which content credentials
 * often have: such a key is read out of the certificate as a plain RSA key.
 */
import { createPublicKey, type KeyObject, type X509Certificate } from "node:crypto";

type Item = { tag: number; body: Uint8Array };

const SEQUENCE = 0x30;
const VERSION = 0xa0;
const OID = 0x06;
const RSA_PSS = "2a864886f70d01010a"; // 1.2.840.113549.1.1.10
/** Fields of a certificate between the version and the key: serial number, algorithm, issuer, validity, subject. */
const FIELDS_BEFORE_KEY = 5;

/** Throws if the key cannot be read. */
export function publicKeyOf(certificate: X509Certificate): KeyObject {
  try {
    return certificate.publicKey;
  } catch (error) {
    const key = readPssKey(certificate.raw);
    if (!key) throw error;
    return createPublicKey({ key: Buffer.from(key), format: "der", type: "pkcs1" });
  }
}

function readPssKey(der: Uint8Array): Uint8Array | null {
  const body = children(children(der)[0]?.body)[0]?.body;
  const fields = children(body);
  const info = fields[FIELDS_BEFORE_KEY + (fields[0]?.tag === VERSION ? 1 : 0)];
  if (info?.tag !== SEQUENCE) return null;
  const [algorithm, bits] = children(info.body);
  const [name] = children(algorithm?.body);
  if (name?.tag !== OID || Buffer.from(name.body).toString("hex") !== RSA_PSS || !bits) return null;
  return bits.body.subarray(1); // the first byte of a bit string counts unused bits
}

/** Splits DER into its items. Stops at a length that is longer than the input. */
function children(bytes: Uint8Array = new Uint8Array()): Item[] {
  const items: Item[] = [];
  for (let at = 0; at + 2 <= bytes.length; ) {
    const tag = bytes[at]!;
    const first = bytes[at + 1]!;
    const wide = first < 0x80 ? 0 : first & 0x7f;
    let length = wide === 0 ? first : 0;
    for (let i = 0; i < wide; i++) length = length * 256 + (bytes[at + 2 + i] ?? 0);
    const start = at + 2 + wide;
    if (wide > 4 || start + length > bytes.length) break;
    items.push({ tag, body: bytes.subarray(start, start + length) });
    at = start + length;
  }
  return items;
}
