/** The node of rank 0 listens for the supervisors of the other ranks, and joins each of them to its trainer. */
import { createServer, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { greetRank, joinWorker } from "./rank_link.ts";

export type Hub = {
  port: number;
  /** Addresses of this machine that other nodes may reach. */
  addresses: string[];
  /** The socket of the trainer of rank 0. */
  attach: (socketPath: string) => void;
  /** Resolves when all other ranks have joined. */
  joined: Promise<void>;
  close: () => void;
};

export async function openHub({ secret, count }: { secret: string; count: number }): Promise<Hub> {
  const missing = new Set(Array.from({ length: count - 1 }, (_, i) => i + 1));
  const sockets = new Set<Socket>();
  const over = new AbortController();
  const worker = Promise.withResolvers<string>();
  const joined = Promise.withResolvers<void>();

  async function admit(socket: Socket) {
    const rank = await greetRank(socket, secret);
    if (!missing.delete(rank)) throw new Error(`rank ${rank} is not expected`);
    await joinWorker(socket, await worker.promise, rank, over.signal);
    if (missing.size === 0) joined.resolve();
  }

  const server = createServer((socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => {}); // `close` follows
    socket.on("close", () => sockets.delete(socket));
    admit(socket).catch(() => socket.destroy()); // a stranger, or the run is over
  });
  await new Promise<void>((done, failed) => {
    server.once("error", failed);
    server.listen(0, done);
  });
  const address = server.address();
  return {
    port: typeof address === "object" && address ? address.port : 0,
    addresses: outerAddresses(),
    attach: worker.resolve,
    joined: joined.promise,
    close() {
      over.abort(new Error("The run is over"));
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** IPv4 first. Addresses of one link only are of no use without the name of the link. */
const outerAddresses = () =>
  Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .filter(({ internal, address }) => !internal && !address.startsWith("fe80"))
    .toSorted((a, b) => a.family.localeCompare(b.family))
    .map(({ address }) => address);
