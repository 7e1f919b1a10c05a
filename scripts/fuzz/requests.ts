/**
 * Malformed requests, from a seed, to a server that it starts itself on loopback.
 *
 *   bun scripts/fuzz/requests.ts [--count N] [--seed N] [--minutes N] [--at INDEX]
 *
 * Prints a line for each finding, with what makes it again, and a report. Exits 1 when there is a finding: a 500, a
 * server that ended or stopped answering, or more memory than requests may take. `--at` sends one request and prints it.
 */
import { readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { parseArgs } from "node:util";
import { startBinary } from "../../test/binary.ts";
import { makeKey } from "../../test/cli.ts";
import { type Document, makerOf, type World } from "./request_makers.ts";

const { values } = parseArgs({
  options: {
    count: { type: "string", default: "100000" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    minutes: { type: "string", default: "60" },
    at: { type: "string" },
  },
});
const [count, seed, minutes] = [values.count, values.seed, values.minutes].map(Number) as [number, number, number];

const AT_ONCE = 8;
const TIMEOUT_MS = 3_000; // for a body that never ends, or a stream
const HEALTH_MS = 30_000;
const MOST_BYTES = 1_500e6;

const server = await startBinary({
  env: { VERK_HTTP__RATE_LIMIT_PER_SECOND: "0", VERK_LOG__LEVEL: "warn", VERK_OFFLINE: "true" },
});
const { hostname, port } = new URL(server.url);
const findings: string[] = [];
const statuses = new Map<string, number>();
const finding = (index: number, name: string, what: string) => {
  findings.push(`${what}: ${name}\n  again: bun scripts/fuzz/requests.ts --seed ${seed} --at ${index}`);
  console.log(findings.at(-1));
};

/** The beginning of the answer, or "" if the server closes without an answer or none comes in time. */
function send(bytes: Buffer): Promise<string> {
  const done = Promise.withResolvers<string>();
  let text = "";
  const socket = connect(Number(port), hostname);
  const timer = setTimeout(() => socket.destroy(), TIMEOUT_MS);
  socket.on("data", (chunk) => {
    if (text.length < 4_000) text += chunk.toString("latin1");
    const [head = "", body = ""] = text.split("\r\n\r\n", 2);
    const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? Number.NaN);
    if (body.length >= Math.min(length, 2_000) || /^content-type: text\/event-stream/im.test(head)) socket.destroy();
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    clearTimeout(timer);
    done.resolve(text);
  });
  socket.write(bytes); // not ended: a client that hangs up gets no answer
  return done.promise;
}

const isHealthy = () =>
  fetch(`${server.url}/healthz`, { signal: AbortSignal.timeout(HEALTH_MS) }).then(
    ({ ok }) => ok,
    () => false,
  );
const peakBytes = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))?.[1]) * 1024;

/** Two keys, and things that requests may name. The workspace and keys that the run needs are not among them. */
async function worldOf(): Promise<World> {
  const keys = [(await makeKey(server.dir, "--scope", "admin")).key, (await makeKey(server.dir)).key];
  const post = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${keys[0]}`, "content-type": "application/json" };
    const answer = await fetch(`${server.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    return ((await answer.json()) as { id?: string }).id ?? "x";
  };
  const ids = await Promise.all([
    post("/v1/datasets", { name: "fuzz", format: "prompt" }),
    post("/v1/volumes", { name: "fuzz" }),
    post("/v1/webhooks", { url: "https://fuzz.invalid/x" }),
    post("/v1/workspaces", { name: "fuzz" }),
    post("/v1/api_keys", { name: "fuzz" }),
  ]);
  return { keys, ids: [...ids, "fuzz", "job_x", "x", "verk-tiny"] };
}

async function run() {
  const document = (await (await fetch(`${server.url}/openapi.json`)).json()) as Document;
  const make = makerOf(document, await worldOf(), seed);
  const end = performance.now() + minutes * 60_000;
  const last = values.at === undefined ? count : Number(values.at) + 1;
  let next = values.at === undefined ? 0 : Number(values.at);
  let sent = 0;
  const attack = async () => {
    while (next < last && performance.now() < end && server.child.exitCode === null) {
      const index = next++;
      const { name, bytes } = make(index);
      if (values.at !== undefined) console.log(bytes.toString("latin1"));
      const answer = await send(bytes);
      const status = /^HTTP\/1\.\d (\d{3})/.exec(answer)?.[1] ?? "none";
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === "500") finding(index, name, `500 ${answer.split("\r\n\r\n")[1]?.slice(0, 300)}`);
      if (values.at !== undefined) console.log(answer);
      if (++sent % 200 === 0 && !(await isHealthy())) finding(index, name, "no answer to others");
      if (sent % 5_000 === 0) console.log(`${sent} sent, peak ${Math.round(peakBytes() / 1e6)} MB`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, attack));
  if (server.child.exitCode !== null) finding(next, "the server ended", server.stderr().slice(-2_000));
  else if (!(await isHealthy())) finding(next, "the end", "no answer to others");
  const peak = server.child.exitCode === null ? peakBytes() : 0;
  if (peak > MOST_BYTES) finding(next, "all of them", `more than ${MOST_BYTES} bytes of memory`);
  const shown = [...statuses].sort().map(([status, times]) => `${status} × ${times}`);
  console.log(`seed ${seed}: ${sent} requests, ${findings.length} findings, peak ${Math.round(peak / 1e6)} MB`);
  console.log(shown.join(", "));
}

try {
  await run();
} finally {
  await server.kill();
  rmSync(server.dir, { recursive: true, force: true });
}
process.exit(findings.length > 0 ? 1 : 0);
