/** Writes private keys as files that OpenSSH reads. */
import { randomBytes } from "node:crypto";
import { parsePrivateKey } from "./key.ts";

const LINE_LENGTH = 70;
const BLOCK_BYTES = 8; // of the padding, for a file without a passphrase

/** OpenSSH reads Ed25519 keys only in its own format. A key of another type stays as it is. */
export function keyFileOf(text: string): string {
  if (text.includes("OPENSSH PRIVATE KEY")) return text;
  const key = parsePrivateKey(text);
  if (key.asymmetricKeyType !== "ed25519") return text;
  const { x = "", d = "" } = key.export({ format: "jwk" });
  return ed25519File(Buffer.from(x, "base64url"), Buffer.from(d, "base64url"));
}

/** `openssh-key-v1`: the head, the public half, and the private half with two equal check numbers in front. */
function ed25519File(point: Buffer, seed: Buffer): string {
  const type = field(Buffer.from("ssh-ed25519"));
  const check = randomBytes(4);
  const half = [check, check, type, field(point), field(Buffer.concat([seed, point])), field(Buffer.alloc(0))];
  const size = half.reduce((sum, { length }) => sum + length, 0);
  const padding = Buffer.from(
    Array.from({ length: (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES }, (_, i) => i + 1),
  );
  const none = field(Buffer.from("none"));
  const body = Buffer.concat([
    Buffer.from("openssh-key-v1\0"),
    ...[none, none, field(Buffer.alloc(0)), uint32(1)],
    field(Buffer.concat([type, field(point)])),
    field(Buffer.concat([...half, padding])),
  ]);
  const lines = body.toString("base64").match(new RegExp(`.{1,${LINE_LENGTH}}`, "g")) ?? [];
  return `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines.join("\n")}\n-----END OPENSSH PRIVATE KEY-----\n`;
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

const field = (bytes: Buffer) => Buffer.concat([uint32(bytes.length), bytes]);
