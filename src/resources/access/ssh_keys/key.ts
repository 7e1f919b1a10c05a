import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";

/**
 * Parses SSH keys: public lines, and private keys as OpenSSH (`openssh-key-v1`), PKCS#8, PKCS#1 or SEC1 text.
 * A pair is checked by a signature, not by comparing the public halves: the public half in a private key file is only
 * a claim. NOT covered: passphrases, hardware-backed (`sk-`) keys, certificates, DSA.
 */
export class SshKeyError extends Error {
  constructor(
    readonly part: "public_key" | "private_key",
    message: string,
  ) {
    super(message);
    this.name = "SshKeyError";
  }
}

export type SshPublicKey = { type: string; fingerprint: string; line: string; key: KeyObject };

const CURVES: Record<string, { crv: string; bytes: number } | undefined> = {
  nistp256: { crv: "P-256", bytes: 32 },
  nistp384: { crv: "P-384", bytes: 48 },
  nistp521: { crv: "P-521", bytes: 66 },
};
const MIN_RSA_BITS = 2048;
const MAX_RSA_BITS = 8192; // Signing with a larger key blocks the event loop for too long.
const LINE = /^([a-z0-9@.-]+)[ \t]+([A-Za-z0-9+/]+={0,2})(?:[ \t]+([^\p{Cc}]*))?$/u; // A control character in the comment could end the line.
const OPENSSH = /^-----BEGIN OPENSSH PRIVATE KEY-----\s+([A-Za-z0-9+/=\s]+?)\s*-----END OPENSSH PRIVATE KEY-----\s*$/;
const MAGIC = "openssh-key-v1\0";
const LOCKED = "is protected by a passphrase: remove it first (ssh-keygen -p -N '' -f FILE)";

/** Parses one line of `id_….pub`: type, base64, optional comment. */
export function parsePublicKey(text: string): SshPublicKey {
  const refuse = (why: string) => new SshKeyError("public_key", why);
  const [, type = "", base64 = "", comment = ""] = LINE.exec(text.trim()) ?? [];
  if (type === "") throw refuse("must be one line as in an id_*.pub file: ssh-ed25519 AAAA… comment");
  const blob = Buffer.from(base64, "base64");
  const key = quietly(refuse("is damaged, or its type is not supported"), () => {
    const reader = new Reader(blob);
    if (reader.text() !== type) throw new Error("the blob is of another type");
    const jwk = readPublic(type, reader);
    reader.end();
    return createPublicKey({ key: jwk, format: "jwk" });
  });
  checkSize(key, refuse);
  const fingerprint = `SHA256:${createHash("sha256").update(blob).digest("base64").replace(/=+$/, "")}`;
  return { type, fingerprint, line: [type, base64, comment.trim()].filter(Boolean).join(" "), key };
}

export function parsePrivateKey(text: string): KeyObject {
  const refuse = (why: string) => new SshKeyError("private_key", why);
  const pem = text.trim();
  if (/^-----BEGIN ENCRYPTED |^Proc-Type: *4,ENCRYPTED/m.test(pem)) throw refuse(LOCKED);
  const openssh = OPENSSH.exec(pem)?.[1];
  if (openssh === undefined && !/^-----BEGIN ((RSA|EC) )?PRIVATE KEY-----/.test(pem))
    throw refuse("must be a private key as text: OpenSSH, PKCS#8, PKCS#1 or SEC1");
  const unreadable = refuse("is damaged, or its type is not supported");
  const key = quietly(unreadable, () => (openssh === undefined ? createPrivateKey(pem) : readOpenSsh(openssh, refuse)));
  checkSize(key, refuse);
  return key;
}

/** Signs a challenge with the private key and verifies it with the public key. */
export function isPair(publicKey: KeyObject, privateKey: KeyObject): boolean {
  if (publicKey.asymmetricKeyType !== privateKey.asymmetricKeyType) return false;
  const digest = publicKey.asymmetricKeyType === "ed25519" ? null : "sha256";
  const challenge = crypto.getRandomValues(new Uint8Array(32));
  try {
    return verify(digest, challenge, publicKey, sign(digest, challenge, privateKey));
  } catch {
    return false; // The numbers have the form of a key, but cannot sign.
  }
}

/** Hides the errors of the parsers, because they may quote the key. */
function quietly<T>(refusal: SshKeyError, fn: () => T): T {
  try {
    return fn();
  } catch (error) {
    throw error instanceof SshKeyError ? error : refusal;
  }
}

function checkSize(key: KeyObject, refuse: (why: string) => SshKeyError) {
  if (key.asymmetricKeyType !== "rsa") return;
  const bits = key.asymmetricKeyDetails?.modulusLength ?? 0;
  if (bits < MIN_RSA_BITS) throw refuse(`is an RSA key of ${bits} bits: use at least ${MIN_RSA_BITS}, or ssh-ed25519`);
  if (bits > MAX_RSA_BITS) throw refuse(`is an RSA key of ${bits} bits: use at most ${MAX_RSA_BITS}`);
}

function readOpenSsh(base64: string, refuse: (why: string) => SshKeyError): KeyObject {
  const outer = new Reader(Buffer.from(base64, "base64"));
  outer.literal(MAGIC);
  const cipher = outer.text();
  if (cipher !== "none") throw refuse(LOCKED);
  outer.bytes(); // key derivation: "none"
  outer.bytes(); // and its options
  if (outer.number() !== 1) throw refuse("contains several keys: send one");
  outer.bytes(); // the public half, as claimed
  const inner = new Reader(outer.bytes());
  outer.end();
  const check = inner.number();
  if (inner.number() !== check) throw new Error("check numbers differ");
  const key = createPrivateKey({ key: readPrivate(inner.text(), inner), format: "jwk" });
  inner.bytes(); // comment
  inner.padding();
  return key;
}

function readPublic(type: string, from: Reader): JsonWebKey {
  if (type === "ssh-ed25519") return { kty: "OKP", crv: "Ed25519", x: url(from.bytes(32)) };
  if (type === "ssh-rsa") {
    const e = from.integer();
    return { kty: "RSA", e: url(e), n: url(from.integer()) };
  }
  return readPoint(type, from);
}

function readPoint(type: string, from: Reader): JsonWebKey {
  const name = from.text();
  const curve = CURVES[name];
  if (!curve || type !== `ecdsa-sha2-${name}`) throw new Error("unknown key type");
  const point = from.bytes(1 + 2 * curve.bytes);
  if (point[0] !== 4) throw new Error("compressed points are not used in SSH");
  const x = point.subarray(1, 1 + curve.bytes);
  return { kty: "EC", crv: curve.crv, x: url(x), y: url(point.subarray(1 + curve.bytes)) };
}

function readPrivate(type: string, from: Reader): JsonWebKey {
  if (type === "ssh-ed25519") {
    const x = from.bytes(32);
    const pair = from.bytes(64); // seed, then the public half again
    return { kty: "OKP", crv: "Ed25519", x: url(x), d: url(pair.subarray(0, 32)) };
  }
  if (type === "ssh-rsa") {
    const [n, e, d, qi, p, q] = [0, 1, 2, 3, 4, 5].map(() => from.integer()) as [
      Buffer,
      Buffer,
      Buffer,
      Buffer,
      Buffer,
      Buffer,
    ];
    const less = (prime: Buffer) => bytesOf(bigOf(d) % (bigOf(prime) - 1n));
    const parts = { n, e, d, p, q, dp: less(p), dq: less(q), qi };
    return { kty: "RSA", ...Object.fromEntries(Object.entries(parts).map(([name, bytes]) => [name, url(bytes)])) };
  }
  const point = readPoint(type, from);
  const size = Object.values(CURVES).find((curve) => curve?.crv === point.crv)?.bytes ?? 0;
  const d = from.integer();
  if (d.length > size) throw new Error("the scalar is larger than its curve");
  return { ...point, d: url(Buffer.concat([Buffer.alloc(size - d.length), d])) };
}

const url = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64url");
const bigOf = (bytes: Buffer) => BigInt(`0x${bytes.toString("hex") || "0"}`);
const bytesOf = (value: bigint) => {
  const hex = value.toString(16);
  return Buffer.from(hex.padStart(hex.length + (hex.length % 2), "0"), "hex");
};

/** Reads the wire format of RFC 4251: each value has a big-endian length in front. Reading past the end throws. */
class Reader {
  #at = 0;
  constructor(readonly from: Buffer) {}

  #take(count: number): Buffer {
    if (this.#at + count > this.from.length) throw new Error("cut short");
    this.#at += count;
    return this.from.subarray(this.#at - count, this.#at);
  }
  number = () => this.#take(4).readUInt32BE();
  text = () => this.bytes().toString("latin1");
  bytes(exactly?: number): Buffer {
    const length = this.number();
    if (exactly !== undefined && length !== exactly) throw new Error("wrong length");
    return this.#take(length);
  }
  /** A positive integer without its leading zero. */
  integer(): Buffer {
    const bytes = this.bytes();
    if (((bytes[0] ?? 0x80) & 0x80) !== 0) throw new Error("negative or empty");
    return bytes[0] === 0 ? bytes.subarray(1) : bytes;
  }
  literal(text: string) {
    if (this.#take(text.length).toString("latin1") !== text) throw new Error("wrong format");
  }
  padding() {
    const rest = this.from.subarray(this.#at);
    if (rest.length > 255 || rest.some((byte, i) => byte !== i + 1)) throw new Error("wrong padding");
  }
  end() {
    if (this.#at !== this.from.length) throw new Error("something follows");
  }
}
