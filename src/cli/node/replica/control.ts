/** The control socket of a replica: one server at a time reads the messages of the worker, and sends its own. */
import { createServer, type Socket } from "node:net";
import { type FromReplica, type ReplicaExit, ToReplica } from "../../../platform/providers/replicas.ts";
import type { FromServing } from "../../../workers/protocol.ts";

const MOST_SERVED = 1_000;
const MOST_LINE = 1024 * 1024;

export type Control = {
  add: (message: FromServing) => void;
  /** Resolves once the line is on its way. */
  end: (exit: ReplicaExit) => Promise<void>;
  /** By `performance.now()`. */
  heardAt: () => number;
};

type Entry = { n: number; message: FromServing };

/** Pure. What a server that connects later still needs to know. */
export function kept(entries: readonly Entry[]): Entry[] {
  const newest = entries.at(-1);
  const served = entries.filter(({ message }) => message.type === "served").length;
  let spare = Math.max(0, served - MOST_SERVED);
  return entries.filter(({ n, message }) => {
    if (message.type === "loading") return n === newest?.n;
    return message.type !== "served" || spare-- <= 0;
  });
}

/** `onSend`: a message for the worker, once each, in order. */
export function openControl(path: string, onSend: (message: unknown) => void): Control {
  let entries: Entry[] = [];
  let count = 0;
  let heardAt = performance.now();
  let current: Socket | undefined;
  const client = { id: "", seen: 0 };
  const send = (line: FromReplica) => current?.write(`${JSON.stringify(line)}\n`);

  const take = (socket: Socket, text: string) => {
    const line = ToReplica.parse(JSON.parse(text));
    if ("client" in line) {
      if (line.client !== client.id) Object.assign(client, { id: line.client, seen: 0 });
      current?.destroy(); // of a link that was cut
      current = socket;
      send({ hello: true });
      for (const entry of entries) if (entry.n > line.from) send(entry);
    }
    if (socket !== current) return;
    heardAt = performance.now();
    if (!("send" in line) || line.n <= client.seen) return;
    client.seen = line.n;
    onSend(line.send);
  };

  const server = createServer((socket) => {
    let rest = "";
    socket.setEncoding("utf8");
    socket.on("error", () => {}); // its end follows
    socket.on("close", () => {
      if (current === socket) current = undefined;
    });
    socket.on("data", (chunk) => {
      rest += chunk;
      const lines = rest.split("\n");
      rest = lines.pop() ?? "";
      try {
        for (const line of lines) take(socket, line);
      } catch {
        socket.destroy();
      }
      if (rest.length > MOST_LINE) socket.destroy();
    });
  });
  server.listen(path);

  return {
    add(message) {
      const entry = { n: ++count, message };
      entries = kept([...entries, entry]);
      send(entry);
    },
    async end(exit) {
      send({ exit });
      const last = current;
      if (last) await new Promise<void>((done) => last.end(done));
      server.close();
    },
    heardAt: () => heardAt,
  };
}
