/**
 * Runs a command in a network namespace that has the loopback device alone: `bun alone.ts SOCKET PORT COMMAND…`. Connections to
 * the port go to a socket of the file system, behind which the test has its server. So no agent reaches another address.
 */
import { connect, createServer } from "node:net";

const [socket = "", port = "", ...command] = process.argv.slice(2);
createServer((client) => {
  const server = connect(socket);
  client.on("error", () => server.destroy());
  server.on("error", () => client.destroy());
  client.pipe(server).pipe(client);
}).listen(Number(port), "127.0.0.1", async () => {
  const child = Bun.spawn(command, { stdin: "ignore", stdout: "inherit", stderr: "inherit" });
  process.exit(await child.exited);
});
