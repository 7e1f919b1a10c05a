/** A MySQL server that accepts every login and then misbehaves as the test requires. */

import { once } from "node:events";
import { createServer, type Socket } from "node:net";

const packet = (sequence: number, body: Uint8Array) => {
  const head = Buffer.alloc(4);
  head.writeUIntLE(body.byteLength, 0, 3);
  head[3] = sequence & 0xff;
  return Buffer.concat([head, body]);
};

const LARGEST = 0xffffff; // a packet of this length continues in the next
const CAPABILITIES = 0x002b_f7ff; // without TLS, and without leaving out the end of columns

function greeting() {
  const rest = Buffer.alloc(31);
  rest.writeUInt16LE(CAPABILITIES & 0xffff, 0);
  rest[2] = 255;
  rest.writeUInt16LE(2, 3);
  rest.writeUInt16LE(CAPABILITIES >>> 16, 5);
  rest[7] = 21;
  rest.write("ijklmnopqrst\0", 18, "latin1");
  return packet(
    0,
    Buffer.concat([
      Buffer.from("\x0a8.0.30\0\x01\0\0\0abcdefgh\0", "latin1"),
      rest,
      Buffer.from("mysql_native_password\0"),
    ]),
  );
}
const OK = Buffer.from([0, 0, 0, 2, 0, 0, 0]);

export const behaviours = {
  /** Sends nothing after the login. */
  silent: async () => {},
  /** Sends packets of one endless row. */
  endless: async (socket: Socket) => {
    const part = Buffer.alloc(LARGEST, 65);
    for (let sequence = 1; !socket.destroyed; sequence++)
      if (!socket.write(packet(sequence, part))) await once(socket, "drain").catch(() => {});
  },
  /** Requests a file of the client. */
  nosy: async (socket: Socket) => void socket.write(packet(1, Buffer.from("\xfb/etc/passwd", "latin1"))),
};

export async function startFakeMysql(behave: (socket: Socket) => Promise<void>) {
  const heard: Buffer[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.write(greeting());
    let messages = 0;
    socket.on("data", (data: Buffer) => {
      heard.push(data);
      if (++messages === 1) socket.write(packet(2, OK));
      else if (messages === 2) void behave(socket);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as { port: number }).port,
    sentBytes: () => [...sockets].reduce((sum, { bytesWritten }) => sum + bytesWritten, 0),
    heard: () => Buffer.concat(heard).toString("latin1"),
    [Symbol.dispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
