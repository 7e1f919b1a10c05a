/**
 * The streams between the ranks of several nodes. A rank listens on a socket of its own, and the supervisor of its node
 * joins that socket to the network: the trainer itself may not use the network. A stream carries frames: one byte for
 * the kind, four for the length, then the bytes. The first frame is `hello` with the rank of the other side.
 */
import { createServer, type Socket } from "node:net";
import { RANK_GONE } from "../../protocol_trainer.ts";

const KINDS = ["hello", "message", "sum", "total"] as const;
export type Kind = (typeof KINDS)[number];
const HEAD_BYTES = 5;
const TURN_MS = 50;

export type Peer = {
  /** Resolves when the stream takes more. The bytes must not change afterwards. */
  send: (kind: Kind, bytes: Uint8Array) => Promise<void>;
  /** The next frame of this kind. Throws if the stream ends before it. */
  next: (kind: Kind) => Promise<Uint8Array>;
};

type Waiting = { socketPath: string; count: number; onTurn: () => void };

/** Waits for `count` other ranks. Their supervisors decide who may join. */
export async function acceptPeers({ socketPath, count, onTurn }: Waiting): Promise<Map<number, Peer>> {
  const peers = new Map<number, Peer>();
  const server = createServer((socket) => {
    const peer = openPeer(socket, onTurn);
    peer.next("hello").then(
      (bytes) => peers.set(new DataView(bytes.buffer).getUint32(0), peer),
      () => {}, // a stream that ended before its first frame was no rank
    );
  });
  server.listen(socketPath);
  while (peers.size < count) {
    onTurn();
    await Bun.sleep(TURN_MS);
  }
  server.close();
  return peers;
}

function openPeer(socket: Socket, onTurn: () => void): Peer {
  const arrived: Record<Kind, Uint8Array[]> = { hello: [], message: [], sum: [], total: [] };
  let isOver = false;
  let rank = "?";
  let change = Promise.withResolvers<void>();
  const wake = () => {
    change.resolve();
    change = Promise.withResolvers();
  };
  const read = createReader((kind, bytes) => {
    if (kind === "hello") rank = String(new DataView(bytes.buffer).getUint32(0));
    arrived[kind].push(bytes);
    wake();
  });
  socket.on("data", read);
  socket.on("error", () => {}); // `close` follows
  socket.on("close", () => {
    isOver = true;
    wake();
  });
  const rankGone = () => new Error(RANK_GONE(rank));
  return {
    async send(kind, bytes) {
      if (isOver) throw rankGone();
      const head = Buffer.alloc(HEAD_BYTES);
      head.writeUInt8(KINDS.indexOf(kind));
      head.writeUInt32BE(bytes.length, 1);
      socket.write(head);
      if (socket.write(bytes)) return;
      const drained = new Promise<void>((done) => socket.once("drain", done));
      while (socket.writableNeedDrain && !isOver) {
        onTurn();
        await Promise.race([drained, Bun.sleep(TURN_MS)]);
      }
    },
    async next(kind) {
      for (;;) {
        const first = arrived[kind].shift();
        if (first) return first;
        if (isOver) throw rankGone();
        onTurn();
        await Promise.race([change.promise, Bun.sleep(TURN_MS)]);
      }
    },
  };
}

/** Cuts a stream into frames. Each frame has a buffer of its own, so that numbers can be read from it in place. */
export function createReader(take: (kind: Kind, bytes: Uint8Array<ArrayBuffer>) => void) {
  const head = Buffer.alloc(HEAD_BYTES);
  let headBytes = 0;
  let body = new Uint8Array(0);
  let bodyBytes = 0;
  return (chunk: Uint8Array) => {
    for (let at = 0; at < chunk.length; ) {
      if (headBytes < HEAD_BYTES) {
        const part = chunk.subarray(at, at + HEAD_BYTES - headBytes);
        head.set(part, headBytes);
        headBytes += part.length;
        at += part.length;
        if (headBytes < HEAD_BYTES) return;
        body = new Uint8Array(head.readUInt32BE(1));
        bodyBytes = 0;
      }
      const part = chunk.subarray(at, at + body.length - bodyBytes);
      body.set(part, bodyBytes);
      bodyBytes += part.length;
      at += part.length;
      if (bodyBytes < body.length) return;
      headBytes = 0;
      take(KINDS[head.readUInt8(0)] ?? "message", body);
    }
  };
}
