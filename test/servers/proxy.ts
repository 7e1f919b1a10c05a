import type { Socket, TCPSocketListener } from "bun";

type Pair = { other: Socket<Pair> | undefined; waiting: Uint8Array[]; fromServer: boolean; ended: boolean };

export type CuttingProxy = Disposable & {
  port: number;
  /** From the server to its clients, so far. */
  readonly bytes: number;
  /** Ends every connection now; new ones are taken unless `refuse`. */
  cut(options?: { refuse?: boolean }): void;
  /** Cuts all connections once the server has sent this much in all. */
  cutAfter(bytes: number, options?: { refuse?: boolean }): void;
};

/** A TCP proxy in front of a server, for what happens when a connection breaks in the middle. */
export function cuttingProxy(targetPort: number): CuttingProxy {
  const open = new Set<Socket<Pair>>();
  let bytes = 0;
  let limit = Number.POSITIVE_INFINITY;
  let refuseAfterLimit = false;
  let refusing = false;

  const cut = ({ refuse = false } = {}) => {
    refusing = refuse;
    for (const socket of open) socket.terminate();
    open.clear();
  };

  const handlers = {
    data(socket: Socket<Pair>, chunk: Uint8Array) {
      const { other, fromServer } = socket.data;
      if (fromServer) bytes += chunk.byteLength;
      const left = limit - (bytes - chunk.byteLength);
      const last = fromServer && bytes >= limit;
      pass(socket, other, last ? chunk.subarray(0, Math.max(0, left)) : chunk);
      if (!last) return;
      limit = Number.POSITIVE_INFINITY;
      other?.flush();
      cut({ refuse: refuseAfterLimit });
    },
    drain(socket: Socket<Pair>) {
      flushWaiting(socket);
    },
    end(socket: Socket<Pair>) {
      finish(socket.data.other);
    },
    close(socket: Socket<Pair>) {
      open.delete(socket);
      finish(socket.data.other);
    },
    error(socket: Socket<Pair>) {
      socket.terminate();
    },
  };

  const listener: TCPSocketListener<Pair> = Bun.listen<Pair>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      ...handlers,
      async open(client) {
        client.data = { other: undefined, waiting: [], fromServer: false, ended: false };
        if (refusing) return void client.terminate();
        open.add(client);
        client.pause(); // nothing is read before there is somewhere to put it
        const data: Pair = { other: client, waiting: [], fromServer: true, ended: false };
        try {
          const server = await Bun.connect<Pair>({ hostname: "127.0.0.1", port: targetPort, data, socket: handlers });
          open.add(server);
          client.data.other = server;
          client.resume();
        } catch {
          client.terminate();
        }
      },
    },
  });

  return {
    port: listener.port,
    get bytes() {
      return bytes;
    },
    cut,
    cutAfter(count, { refuse = false } = {}) {
      limit = bytes + count;
      refuseAfterLimit = refuse;
    },
    [Symbol.dispose]() {
      cut({ refuse: true });
      listener.stop(true);
    },
  };
}

/** A receiver that is full stops its sender, so that a proxy of gigabytes holds a few kilobytes. */
function pass(from: Socket<Pair>, to: Socket<Pair> | undefined, chunk: Uint8Array) {
  if (!to || chunk.byteLength === 0) return;
  to.data.waiting.push(chunk.slice());
  flushWaiting(to);
  if (to.data.waiting.length > 0) from.pause();
}

function flushWaiting(socket: Socket<Pair>) {
  const { waiting, other, ended } = socket.data;
  while (waiting.length > 0) {
    const chunk = waiting[0]!;
    const sent = Math.max(0, socket.write(chunk));
    if (sent < chunk.byteLength) {
      waiting[0] = chunk.subarray(sent);
      return;
    }
    waiting.shift();
  }
  other?.resume();
  if (ended) socket.end();
}

function finish(socket: Socket<Pair> | undefined) {
  if (!socket) return;
  socket.data.ended = true;
  flushWaiting(socket);
}
