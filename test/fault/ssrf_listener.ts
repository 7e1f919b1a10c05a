import { readFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";

export const TLS = join(import.meta.dir, "../fixtures/tls");
export const NO_CONTENT = "HTTP/1.1 204 No Content\r\n\r\n";

export type Listener = {
  port: number;
  connections: number;
  open: number;
  /** The server name that each TLS client sent (SNI). */
  names: unknown[];
  /** All received text, decrypted. */
  text: string;
  stop: () => void;
};
type Talk = (socket: Socket) => void;

/** The other end at the level of sockets. It begins to talk with the client's first bytes; over TLS unless `plain`. */
export async function listen(talk: Talk, { host = "127.0.0.1", port = 0, plain = false } = {}): Promise<Listener> {
  const sockets = new Set<Socket>();
  const onSocket = (socket: Socket) => {
    seen.names.push((socket as TLSSocket).servername);
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      seen.text += bytes;
    });
    socket.once("data", () => talk(socket));
  };
  const pair = { cert: readFileSync(join(TLS, "server.pem")), key: readFileSync(join(TLS, "server.key")) };
  const server: Server = plain ? createServer(onSocket) : createTlsServer(pair, onSocket);
  const stop = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  const seen: Listener = { port, connections: 0, open: 0, names: [], text: "", stop };
  server.on("connection", (socket) => {
    seen.connections++;
    seen.open++;
    sockets.add(socket);
    socket.on("close", () => seen.open--);
  });
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
  seen.port = (server.address() as AddressInfo).port;
  return seen;
}

/** Writes `chunk` as fast as the other side takes it, until it is gone. Returns how much was written. */
export function flood(socket: Socket, chunk: string | Buffer): () => number {
  let bytes = 0;
  const write = () => {
    do bytes += chunk.length;
    while (socket.write(chunk) && !socket.destroyed);
  };
  socket.on("drain", write);
  write();
  return () => bytes;
}
