/** A port of this machine in front of another one: a link that a test can cut, without root. */

import type { AddressInfo } from "node:net";
import { connect, createServer, type Socket } from "node:net";

export type CutLink = AsyncDisposable & { port: number; cut: () => void; join: () => void };

export async function cutLink(to: number): Promise<CutLink> {
  const open = new Set<Socket>();
  const state = { isCut: false };
  const server = createServer((near) => {
    if (state.isCut) return near.destroy();
    const far = connect(to, "127.0.0.1");
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        open.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return {
    port: (server.address() as AddressInfo).port,
    cut() {
      state.isCut = true;
      for (const socket of open) socket.destroy();
    },
    join() {
      state.isCut = false;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      server.close();
    },
  };
}
