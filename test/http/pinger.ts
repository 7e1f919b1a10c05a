/**
 * Another client of a server: requests /healthz without pause and measures the waits. It is a separate process, so that
 * the attacking process does not delay it. `bun pinger.ts URL PID`; a line on standard input ends one watch and
 * is answered by one line of JSON.
 */
import { readFileSync } from "node:fs";

export type Watch = {
  /** Answers since the last line. */
  answers: number;
  /** The longest CPU time of the server's main thread between two answers. */
  longestCpuMs: number;
  longestMs: number;
};

const [url = "", pid = ""] = process.argv.slice(2);
const cpuMs = () => Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ", 1)[0]) / 1e6;

let watch: Watch = { answers: 0, longestCpuMs: 0, longestMs: 0 };
let report: (() => void) | undefined;

const { hostname, port } = new URL(url);
let answered = () => {};
const socket = await Bun.connect({
  hostname,
  port: Number(port),
  socket: { data: () => answered(), close: () => process.exit(0), error: () => process.exit(1) },
});

process.stdin.on("data", () => {
  report = () => {
    console.log(JSON.stringify(watch));
    watch = { answers: 0, longestCpuMs: 0, longestMs: 0 };
  };
});
process.stdin.on("end", () => process.exit(0));

for (let [before, begun] = [cpuMs(), performance.now()]; ; ) {
  const answer = new Promise<void>((resolve) => {
    answered = resolve;
  });
  socket.write(`GET /healthz HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`);
  await answer;
  const [now, at] = [cpuMs(), performance.now()];
  watch.answers++;
  watch.longestCpuMs = Math.max(watch.longestCpuMs, now - before);
  watch.longestMs = Math.max(watch.longestMs, at - begun);
  [before, begun] = [now, at];
  report?.();
  report = undefined;
  await Bun.sleep(2);
}
