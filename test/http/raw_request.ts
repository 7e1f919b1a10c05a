/** Requests as they are written, over a socket of their own: clients tidy targets and headers up. */
import { connect } from "node:net";

export type RawAnswer = { status: number; headers: string; body: string };

/** `url`: the server. The connection ends with the answer, or when the server closes it. */
export function rawRequest(url: string, text: string | Uint8Array): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  const done = Promise.withResolvers<RawAnswer>();
  let answer = "";
  const parts = () => {
    const [headers = "", body = ""] = answer.split("\r\n\r\n", 2);
    return { headers, body };
  };
  const socket = connect(Number(port), hostname);
  socket.on("data", (bytes) => {
    answer += bytes.toString("latin1");
    const { headers, body } = parts();
    const length = Number(/content-length: (\d+)/i.exec(headers)?.[1] ?? 0);
    if (answer.includes("\r\n\r\n") && body.length >= length) socket.destroy();
  });
  socket.on("close", () => done.resolve({ ...parts(), status: Number(answer.split(" ")[1]) }));
  socket.on("error", done.reject);
  socket.write(text);
  return done.promise;
}
