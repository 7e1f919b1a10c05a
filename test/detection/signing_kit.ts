/** Signers of content credentials, made by openssl, and claims signed by them. */
import { constants, createPrivateKey, sign, X509Certificate } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { box, cbor, head, superbox, type Value } from "./credentials_kit.ts";

export type Signer = { algorithm: number; key: string; chain: Uint8Array[]; root: string };

/** By the number of the algorithm in COSE. */
const KEYS: Record<number, string[]> = {
  [-7]: ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
  [-35]: ["EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
  [-37]: ["RSA-PSS", "-pkeyopt", "rsa_keygen_bits:2048"],
  [-8]: ["ED25519"],
};
const HASHES: Record<number, string | null> = { [-7]: "sha256", [-35]: "sha384", [-37]: "sha256", [-8]: null };

export const hasOpenssl = Bun.which("openssl") !== null;

function openssl(...args: string[]) {
  const { exitCode, stderr } = Bun.spawnSync(["openssl", ...args]);
  if (exitCode !== 0) throw new Error(`openssl ${args[0]}: ${stderr.toString()}`);
}

type Options = { algorithm: number; purpose?: string; days?: number; authority?: boolean };

/** A root, an authority below it, and the signer, all with keys of one kind. */
export function makeSigner(dir: string, { algorithm, purpose, days = 30, authority = false }: Options): Signer {
  const path = (name: string) => join(dir, name);
  const make = (name: string, issuer: string | null, extensions: string) => {
    openssl("genpkey", "-algorithm", ...KEYS[algorithm]!, "-out", path(`${name}.key`));
    const subject = ["-subj", `/O=The ${name}/CN=${name}`];
    writeFileSync(path(`${name}.ext`), extensions);
    openssl("req", "-new", "-key", path(`${name}.key`), ...subject, "-out", path(`${name}.csr`));
    const by = issuer
      ? ["-CA", path(`${issuer}.pem`), "-CAkey", path(`${issuer}.key`), "-CAcreateserial"]
      : ["-signkey", path(`${name}.key`)];
    const files = ["-in", path(`${name}.csr`), "-extfile", path(`${name}.ext`), "-out", path(`${name}.pem`)];
    const salt = algorithm === -37 ? ["-sha256", "-sigopt", "rsa_pss_saltlen:-1"] : []; // as long as the hash
    openssl("x509", "-req", ...files, ...by, ...salt, "-days", String(days));
  };
  const ca = "basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign\n";
  make("root", null, ca);
  make("middle", "root", ca);
  make("signer", "middle", authority ? ca : `extendedKeyUsage=${purpose ?? "emailProtection"}\n`);
  const read = (name: string) => readFileSync(path(name), "utf8");
  const chain = ["signer.pem", "middle.pem"].map((name) => new X509Certificate(read(name)).raw);
  return { algorithm, key: read("signer.key"), chain, root: read("root.pem") };
}

/** Lengths inside signed bytes have their shortest form; elsewhere any form may stand. */
function shortest(major: number, bytes: Uint8Array): Buffer {
  const { length } = bytes;
  if (length < 24) return Buffer.concat([head(major, length), bytes]);
  const digits = length < 0x100 ? 2 : length < 0x10000 ? 4 : 8;
  const size = Buffer.from(length.toString(16).padStart(digits, "0"), "hex");
  return Buffer.concat([Buffer.from([(major << 5) | (24 + Math.log2(size.length))]), size, bytes]);
}

const int = (value: number) => (value < 0 ? head(1, -1 - value) : head(0, value));

export function coseOf({ algorithm, key, chain }: Signer, content: Uint8Array): Buffer {
  const headers = Buffer.concat([head(5, 2), int(1), int(algorithm), int(33), cbor(chain)]);
  const parts = [headers, Buffer.alloc(0), content].map((part) => shortest(2, part));
  const signed = Buffer.concat([head(4, 4), cbor("Signature1"), ...parts]);
  return Buffer.concat([head(6, 18), head(4, 4), cbor(headers), head(5, 0), Buffer.from([0xf6]), cbor(raw(signed))]);

  function raw(bytes: Uint8Array) {
    const privateKey = { key, dsaEncoding: "ieee-p1363" as const };
    if (algorithm !== -37)
      return sign(HASHES[algorithm]!, bytes, algorithm === -8 ? createPrivateKey(key) : privateKey);
    const padding = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST };
    return sign("sha256", bytes, { key: plainRsa(key), ...padding });
  }
}

/** BoringSSL does not read a key that is marked for PSS; inside the mark is a plain RSA key. */
function plainRsa(pem: string) {
  const der = Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ""), "base64");
  const start = der.indexOf(Buffer.from("020100028201", "hex")); // version 0, then a modulus of 2,048 bits
  return createPrivateKey({ key: der.subarray(start - 4), format: "der", type: "pkcs1" });
}

export type Tampering = { claim?: boolean; assertion?: boolean; extra?: boolean; signature?: boolean };

type Assertions = Record<string, Value>;

/** A store with one signed manifest. */
export const signedStore = (signer: Signer, assertions: Assertions, tampering?: Tampering): Buffer =>
  superbox("c2pa", signedManifest(signer, assertions, "urn:uuid:1", tampering));

/** The content of an ingredient about an earlier manifest of the store. */
export const referenceTo = (manifest: Uint8Array, label: string) => ({
  url: `self#jumbf=/c2pa/${label}`,
  alg: "sha256",
  hash: new Bun.CryptoHasher("sha256").update(manifest.subarray(8)).digest(),
});

export function signedManifest(
  signer: Signer,
  assertions: Assertions,
  label: string,
  tampering: Tampering = {},
): Buffer {
  const boxes = Object.entries(assertions).map(([label, value]) => superbox(label, box("cbor", cbor(value))));
  const references = boxes.map((bytes, i) => ({
    url: `self#jumbf=c2pa.assertions/${Object.keys(assertions)[i]}`,
    hash: new Bun.CryptoHasher("sha256").update(bytes.subarray(8)).digest(),
  }));
  const claim = (generator: string) => cbor({ claim_generator: generator, alg: "sha256", assertions: references });
  const cose = coseOf(signer, claim("maker/1"));
  if (tampering.signature) cose[cose.length - 9]! ^= 1;
  if (tampering.assertion) boxes[0]![boxes[0]!.length - 1]! ^= 1;
  if (tampering.extra) boxes.push(superbox("c2pa.metadata", box("cbor", cbor({ a: 1 }))));
  return superbox(
    label,
    superbox("c2pa.assertions", ...boxes),
    superbox("c2pa.claim", box("cbor", claim(tampering.claim ? "maker/2" : "maker/1"))),
    superbox("c2pa.signature", box("cbor", cose)),
  );
}
