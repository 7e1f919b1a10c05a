/**
 * Joins the trainers of several nodes over TCP. Both sides prove that they know the secret of the plan before anything
 * else passes. After that the bytes of the two trainers pass as they are: not encrypted, as within one cluster.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { SECOND_MS } from "../../lib/units.ts";
import { helloFrame } from "../../workers/protocol_trainer.ts";

const NONCE_BYTES = 32;
const PROOF_BYTES = 32;
const RANK_BYTES = 4;
const HANDSHAKE_MS = 10 * SECOND_MS;
const CONNECT_MS = 5 * SECOND_MS;
const RETRY_MS = 50;

const proof = (secret: string, ...parts: (string | Uint8Array)[]) => {
  const hmac = createHmac("sha256", secret);
  for (const part of parts) hmac.update(part);
  return hmac.digest();
};

/** The side of rank 0. Returns the rank of the other side; throws if that side does not know the secret. */
export async function greetRank(socket: Socket, secret: string): Promise<number> {
  const nonce = randomBytes(NONCE_BYTES);
  socket.write(nonce);
  const answer = await take(socket, RANK_BYTES + NONCE_BYTES + PROOF_BYTES);
  const rank = answer.subarray(0, RANK_BYTES);
  const theirs = answer.subarray(RANK_BYTES, RANK_BYTES + NONCE_BYTES);
  mustEqual(answer.subarray(RANK_BYTES + NONCE_BYTES), proof(secret, "rank", nonce, theirs, rank));
  socket.write(proof(secret, "first", theirs, nonce));
  return rank.readUInt32BE(0);
}

/** The side of the other ranks. */
async function greetFirst(socket: Socket, secret: string, index: number): Promise<void> {
  const theirs = await take(socket, NONCE_BYTES);
  const nonce = randomBytes(NONCE_BYTES);
  const rank = Buffer.alloc(RANK_BYTES);
  rank.writeUInt32BE(index);
  socket.write(Buffer.concat([rank, nonce, proof(secret, "rank", theirs, nonce, rank)]));
  mustEqual(await take(socket, PROOF_BYTES), proof(secret, "first", nonce, theirs));
}

function mustEqual(received: Uint8Array, expected: Uint8Array) {
  if (!timingSafeEqual(received, expected)) throw new Error("the other side does not know the secret of this run");
}

async function take(socket: Socket, bytes: number): Promise<Buffer> {
  const signal = AbortSignal.timeout(HANDSHAKE_MS);
  for (;;) {
    const read = socket.read(bytes) as Buffer | null;
    if (read && read.length === bytes) return read;
    if (read || socket.destroyed || socket.readableEnded) throw new Error("the connection ended");
    await Promise.race([once(socket, "readable", { signal }), once(socket, "close", { signal })]);
  }
}

type First = { addresses: readonly string[]; port: number; secret: string };

/** Tries the addresses of rank 0 one after the other. */
export async function connectFirst({ addresses, port, secret }: First, index: number): Promise<Socket> {
  let last: unknown;
  for (const host of addresses) {
    const socket = connect({ port, host });
    socket.on("error", () => {}); // `once` reports it
    try {
      await once(socket, "connect", { signal: AbortSignal.timeout(CONNECT_MS) });
      socket.setNoDelay(true);
      await greetFirst(socket, secret, index);
      return socket;
    } catch (error) {
      socket.destroy();
      last = error;
    }
  }
  const reason = last instanceof Error ? last.message : "it has no address";
  throw new Error(`The node of rank 0 cannot be reached at ${addresses.join(", ")}, port ${port}: ${reason}`);
}

/** Joins a stream from `rank` to the socket of a trainer, which listens soon after its start. */
export async function joinWorker(stream: Socket, socketPath: string, rank: number, signal: AbortSignal) {
  for (;;) {
    signal.throwIfAborted();
    const inner = connect(socketPath);
    try {
      await once(inner, "connect", { signal });
      inner.write(helloFrame(rank));
      bridge(stream, inner);
      return;
    } catch {
      inner.destroy();
      await Bun.sleep(RETRY_MS);
    }
  }
}

/** `end` and not `destroy`: bytes that are under way still arrive. */
function bridge(a: Socket, b: Socket) {
  a.pipe(b);
  b.pipe(a);
  a.on("error", () => b.destroy()).on("close", () => b.end());
  b.on("error", () => a.destroy()).on("close", () => a.end());
}
