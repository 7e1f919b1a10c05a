import { expect, test } from "bun:test";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { Duplex, PassThrough } from "node:stream";
import { tempDir, until } from "../../../../test/harness.ts";
import { openTunnel } from "./tunnel.ts";

const listen = (path: string, server: Server) => new Promise<Server>((done) => server.listen(path, () => done(server)));

test("a stream that fails ends on the other side, and the pipe goes on", async () => {
  const [there, back] = [new PassThrough(), new PassThrough()];
  const sink = (heard: string[] = []) =>
    Object.assign(
      new Duplex({
        read() {},
        write(chunk, _encoding, done) {
          heard.push(String(chunk));
          done();
        },
      }),
      { heard },
    );
  const far: ReturnType<typeof sink>[] = [];
  const accept = () => {
    const stream = sink();
    far.push(stream);
    return stream;
  };
  openTunnel({ input: there, output: back, accept });
  const tunnel = openTunnel({ input: back, output: there });
  const [failing, other] = [sink(), sink()];
  tunnel.open(failing);
  tunnel.open(other);
  failing.destroy(new Error("reset"));
  await until("its end", () => far[0]?.writableEnded);
  far[1]?.push("still here");
  await until("the other stream", () => other.heard.includes("still here"));
  there.end();
});

test("streams pass through one pipe side by side, and end alone", async () => {
  const dir = tempDir();
  const [near, far] = [join(dir, "near"), join(dir, "far")];
  const echo = createServer((socket) => void socket.on("data", (data) => socket.write(`<${data}>`)));
  await listen(far, echo);
  const [there, back] = [new PassThrough(), new PassThrough()];
  const accepted: number[] = [];
  const end = openTunnel({
    input: there,
    output: back,
    accept(stream) {
      accepted.push(stream);
      return connect(far);
    },
  });
  const tunnel = openTunnel({ input: back, output: there });
  const lines: string[] = [];
  const control = new Duplex({
    read() {},
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  tunnel.open(control);
  control.push("hello");
  await until("the control stream", () => lines.length === 1 || undefined);
  await listen(
    near,
    createServer((socket) => tunnel.open(socket)),
  );
  const talk = (text: string) => {
    const socket = connect(near);
    let heard = "";
    socket.on("data", (data) => {
      heard += data;
    });
    socket.write(text);
    return { socket, heard: () => heard };
  };
  const [a, b] = [talk("a"), talk("b")];
  await until("both answers", () => (a.heard() === "<a>" && b.heard() === "<b>") || undefined);
  a.socket.end();
  b.socket.write("b");
  await until("the other goes on", () => b.heard() === "<b><b>" || undefined);
  const long = talk("x".repeat(300_000));
  await until("a long stream", () => long.heard().replaceAll(/[<>]/g, "").length === 300_000 || undefined);
  expect([lines, accepted]).toEqual([["<hello>"], [0, 1, 2, 3]]);
  there.end();
  await end.over;
  back.end();
  await tunnel.over;
  echo.close();
});
