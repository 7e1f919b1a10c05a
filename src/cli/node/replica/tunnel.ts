/**
 * Many streams over the lines of one pipe: `srun` joins a login node and a compute node by standard input and output
 * alone. Stream 0 is the control socket of the replica. The others are connections to its worker.
 */
import { connect } from "node:net";
import { join } from "node:path";
import type { Duplex, Readable, Writable } from "node:stream";
import { z } from "zod";
import { later } from "../../../lib/schema.ts";
import { readJson } from "../../../platform/files.ts";
import { ReplicaSockets } from "../../../platform/providers/replicas.ts";
import { dirOf } from "./verbs.ts";

/** `open` is the first line of a stream, `end` the last. `data` is base64. */
const Frame = later(() =>
  z.strictObject({
    stream: z.int().min(0),
    open: z.literal(true).optional(),
    data: z.string().optional(),
    end: z.literal(true).optional(),
  }),
);
type Frame = z.infer<typeof Frame>;

const MOST_LINE = 1024 * 1024;
export const CONTROL = 0;

type Pipe = {
  input: Readable;
  output: Writable;
  /** Opens the stream that the other side asks for. */
  accept?: (stream: number) => Duplex;
};

export type Tunnel = {
  /** A stream of this side. */
  open: (socket: Duplex) => void;
  /** Resolves when the other side has gone. */
  over: Promise<void>;
};

export function openTunnel({ input, output, accept }: Pipe): Tunnel {
  const sockets = new Map<number, Duplex>();
  const over = Promise.withResolvers<void>();
  let count = CONTROL;
  const send = (frame: Frame) => {
    if (output.write(`${JSON.stringify(frame)}\n`)) return;
    for (const socket of sockets.values()) socket.pause(); // until the pipe takes more
  };
  output.on("drain", () => {
    for (const socket of sockets.values()) socket.resume();
  });
  output.on("error", () => over.resolve());

  const add = (stream: number, socket: Duplex) => {
    sockets.set(stream, socket);
    socket.on("data", (data: Buffer) => send({ stream, data: data.toString("base64") }));
    socket.on("error", () => {}); // `close` follows
    socket.on("close", () => {
      if (sockets.delete(stream)) send({ stream, end: true });
    });
  };
  const take = (line: string) => {
    const { stream, open, data, end } = Frame.parse(JSON.parse(line));
    if (open && accept) add(stream, accept(stream));
    const socket = sockets.get(stream);
    if (data !== undefined) socket?.write(Buffer.from(data, "base64"));
    if (!end) return;
    sockets.delete(stream);
    socket?.end();
  };
  readLines(input, take).then(over.resolve, () => over.resolve());
  void over.promise.then(() => {
    for (const socket of sockets.values()) socket.destroy();
  });
  return {
    open(socket) {
      const stream = count++;
      send({ stream, open: true });
      add(stream, socket);
    },
    over: over.promise,
  };
}

async function readLines(input: Readable, take: (line: string) => void): Promise<void> {
  let rest = "";
  input.setEncoding("utf8");
  for await (const chunk of input) {
    rest += chunk;
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > MOST_LINE) throw new Error("a line of the tunnel is too long");
    for (const line of lines) take(line);
  }
}

/** `verk node replica_pipe`: the end of the tunnel on the node of the replica. */
export async function pipeReplica(root: string, name: string): Promise<undefined> {
  const sockets = await readJson(join(dirOf(root, name), "sockets.json"), ReplicaSockets);
  if (!sockets) throw new Error("the replica has no sockets any more");
  const { over } = openTunnel({
    input: process.stdin,
    output: process.stdout,
    accept: (stream) => connect(stream === CONTROL ? sockets.control : sockets.worker),
  });
  await over;
  process.stdin.destroy();
  return undefined;
}
