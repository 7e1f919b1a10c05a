/** A Postgres server that accepts every login and answers the first statement with endless rows. */
import { once } from "node:events";
import { createServer, type Socket } from "node:net";

function message(type: string, body: Uint8Array) {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(body.byteLength + 4, 1);
  return Buffer.concat([head, body]);
}

const LET_IN = Buffer.concat([message("R", Buffer.alloc(4)), message("Z", Buffer.from("I"))]);
const COLUMN = message("T", Buffer.from("\0\x01a\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0", "latin1"));
const ROW = message("D", Buffer.concat([Buffer.from([0, 1, 0, 0, 4, 0]), Buffer.alloc(1024, 65)]));

export async function startEndlessPostgres() {
  const sockets = new Set<Socket>();
  const rows = Buffer.concat(Array(1000).fill(ROW));
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.write(LET_IN);
      socket.once("data", async () => {
        socket.write(COLUMN);
        while (!socket.destroyed) if (!socket.write(rows)) await once(socket, "drain").catch(() => {});
      });
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as { port: number }).port,
    [Symbol.dispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
