/** Rows in and out, each beside the plain loop over prepared statements in the same round. */
import { closeSync, openSync, readFileSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import { formOf } from "../src/cli/transfer/form.ts";
import { openSource } from "../src/cli/transfer/source.ts";
import { rowsOf } from "./rows.ts";
import { makeKey, median, ROOT, type Row, type Running, remove, startPeer, startVerk, tempDir } from "./tools.ts";

const BATCH = 1000;
const CONNECTIONS = 4;
const ROUNDS = 3;
const SIZES = {
  full: { appendRows: 400_000, fileRows: 2_000_000, readRows: 10_000_000 },
  quick: { appendRows: 100_000, fileRows: 200_000, readRows: 500_000 },
};

type Sizes = (typeof SIZES)["full"];
type Bench = { dir: string; verk: Running; key: string; sizes: Sizes };

export async function run({ quick = false } = {}): Promise<Row[]> {
  const dir = tempDir();
  const verk = await startVerk(dir);
  const bench = { dir, verk, key: await makeKey(dir, "*"), sizes: SIZES[quick ? "quick" : "full"] };
  try {
    return [...(await appending(bench)), ...(await filing(bench)), ...(await reading(bench))];
  } finally {
    await verk.stop();
    remove(dir);
  }
}

const row = (what: string, value: string, target = "", ok: boolean | null = null): Row => ({
  bench: "datasets",
  what,
  value,
  target,
  ok,
});
const k = (perSecond: number) => `${Math.round(perSecond / 1000)}k rows/s`;
const ratios = (ours: readonly number[], theirs: readonly number[]) =>
  median(ours.map((value, i) => value / (theirs[i] as number)));
const times = (ratio: number) => `${ratio.toFixed(2)}×`;

async function call<T>({ verk, key }: Bench, method: string, path: string, init: RequestInit = {}): Promise<T> {
  const headers = { authorization: `Bearer ${key}`, ...init.headers };
  const answer = await fetch(`${verk.url}/v1/datasets${path}`, { ...init, method, headers });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as T;
}

/** A peer that prints how many seconds it took. */
async function seconds(...args: string[]): Promise<number> {
  const child = Bun.spawn([process.execPath, join(ROOT, "bench/peers/row_loop.ts"), ...args], { stderr: "inherit" });
  return Number(await new Response(child.stdout).text());
}

/** Rows a second through `send`, from several connections at once; a few batches before it count as warming up. */
async function load(bodies: readonly BodyInit[], send: (body: BodyInit) => Promise<unknown>): Promise<number> {
  for (const body of bodies.slice(0, 10)) await send(body);
  let next = 0;
  const began = performance.now();
  const one = async () => {
    for (let body = bodies[next++]; body !== undefined; body = bodies[next++]) await send(body);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, one));
  return (bodies.length * BATCH) / ((performance.now() - began) / 1000);
}

async function appending(bench: Bench): Promise<Row[]> {
  const { dir, sizes } = bench;
  const lines = Array.from({ length: sizes.appendRows / BATCH }, (_, i) => rowsOf(i * BATCH, BATCH));
  const asJson = lines.map((body) => `{"rows":[${new TextDecoder().decode(body).trimEnd().replaceAll("\n", ",")}]}`);
  const file = join(dir, "append.jsonl");
  await Bun.write(file, Buffer.concat(lines));
  const found = { ndjson: [] as number[], json: [] as number[], loop: [] as number[], served: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    const stream = JSON.stringify({ name: `append ${round}`, format: "prompt" });
    const json = { "content-type": "application/json" };
    const { id } = await call<{ id: string }>(bench, "POST", "", { body: stream, headers: json });
    const send = (headers: HeadersInit) => (body: BodyInit) => call(bench, "POST", `/${id}/rows`, { body, headers });
    found.ndjson.push(await load(lines, send({ "content-type": "application/x-ndjson" })));
    found.json.push(await load(asJson, send(json)));
    found.loop.push(sizes.appendRows / (await seconds("append", join(dir, `loop${round}.db`), file)));
    const peer = await startPeer("row_loop.ts", ["serve", join(dir, `served${round}.db`)]);
    found.served.push(await load(lines, (body) => fetch(peer.url, { method: "POST", body }).then((a) => a.json())));
    await peer.stop();
  }
  const [ndjson, json, loop, served] = [found.ndjson, found.json, found.loop, found.served].map(median) as number[];
  const say = (kind: string, ours = 0, theirs = 0, who = "") =>
    `append ${kind}: ${k(ours)} against ${k(theirs)} of ${who}`;
  const [plain, overHttp] = ["the loop itself", "the loop behind HTTP"];
  const least = Math.min(ndjson ?? 0, json ?? 0);
  return [
    row("append in batches of 1,000, 4 connections, on the disk", k(least), "≥ 100k rows/s", least >= 100_000),
    row(say("NDJSON", ndjson, loop, plain), times(ratios(found.ndjson, found.loop))),
    row(say("NDJSON", ndjson, served, overHttp), times(ratios(found.ndjson, found.served))),
    row(say("JSON", json, loop, plain), times(ratios(found.json, found.loop))),
  ];
}

function makeFile(path: string, rows: number) {
  const fd = openSync(path, "w");
  for (let at = 0; at < rows; at += BATCH) writeSync(fd, rowsOf(at, BATCH));
  closeSync(fd);
}

const mbPerSecond = (bytes: number, ms: number) => bytes / 1e6 / (ms / 1000);
const peakMb = (pid: number, what: "VmHWM" | "VmRSS") =>
  (Number(new RegExp(`${what}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024) / 1e6;

/** MB/s until the last byte is here. */
async function drain(chunks: AsyncIterable<Uint8Array>, expected: number): Promise<number> {
  const began = performance.now();
  let bytes = 0;
  for await (const chunk of chunks) bytes += chunk.byteLength;
  if (bytes !== expected) throw new Error(`${bytes} bytes instead of ${expected}`);
  return mbPerSecond(bytes, performance.now() - began);
}

const output = (...argv: string[]) => Bun.spawn(argv, { stdout: "pipe", stderr: "inherit" }).stdout;

async function uploadOnce(bench: Bench, file: string): Promise<{ id: string; rate: number }> {
  const source = await openSource(file);
  const began = performance.now();
  const { headers, body } = formOf({ fields: { name: "upload" }, file: source }, source.chunks());
  const { id } = await call<{ id: string }>(bench, "POST", "", { headers, body });
  const rate = mbPerSecond(source.size ?? 0, performance.now() - began);
  await source.close();
  return { id, rate };
}

async function filing(bench: Bench): Promise<Row[]> {
  const { dir, verk, key, sizes } = bench;
  const file = join(dir, "upload.jsonl");
  makeFile(file, sizes.fileRows);
  const { size } = statSync(file);
  const found = {
    up: [] as number[],
    loopUp: [] as number[],
    out: [] as number[],
    loopOut: [] as number[],
    cat: [] as number[],
  };
  const before = peakMb(verk.pid, "VmRSS");
  let grownMb = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const peerDb = join(dir, `file${round}.db`);
    const { id, rate } = await uploadOnce(bench, file);
    found.up.push(rate);
    if (round === 0) grownMb = Math.max(0, peakMb(verk.pid, "VmHWM") - before);
    found.loopUp.push(mbPerSecond(size, 1000 * (await seconds("upload", peerDb, file))));
    const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
    const snapshot = await call<{ id: string }>(bench, "POST", `/${id}/snapshots`, { body: "{}", headers });
    const path = `${verk.url}/v1/datasets/${id}/rows/export?snapshot=${encodeURIComponent(snapshot.id)}`;
    const answer = await fetch(path, { headers });
    found.out.push(await drain(answer.body as ReadableStream<Uint8Array>, size));
    found.loopOut.push(
      await drain(output(process.execPath, join(ROOT, "bench/peers/row_loop.ts"), "export", peerDb), size),
    );
    found.cat.push(await drain(output("cat", file), size));
    await call(bench, "DELETE", `/${id}`); // or the next one is this one
    for (const each of [peerDb, `${peerDb}-wal`, `${peerDb}-shm`]) remove(each);
  }
  const mb = (rates: readonly number[]) => `${Math.round(median(rates))} MB/s`;
  const whole = `${Math.round(size / 1e6)} MB`;
  return [
    row(
      `upload of ${whole}: ${mb(found.up)} against ${mb(found.loopUp)} of the loop without HTTP`,
      times(ratios(found.up, found.loopUp)),
    ),
    row(`memory the server took for the upload of ${whole}`, `${Math.round(grownMb)} MB`, "≤ 200 MB", grownMb <= 200),
    row(
      `export of a snapshot, ${whole}: ${mb(found.out)} against ${mb(found.loopOut)} of the loop into a pipe`,
      times(ratios(found.out, found.loopOut)),
    ),
    row(
      `export of a snapshot, ${whole}: ${mb(found.out)} against ${mb(found.cat)} of cat into a pipe`,
      times(ratios(found.out, found.cat)),
    ),
  ];
}

type Reading = { seconds: number; bytes: number; peakMb: number };

async function readOnce(path: string, cold: boolean, ...args: string[]): Promise<Reading> {
  // Out of the page cache.
  if (cold) await Bun.spawn(["dd", `if=${path}`, "iflag=nocache", "count=0"], { stderr: "ignore" }).exited;
  const peer = join(ROOT, "bench/peers/rows_in_order.ts");
  return JSON.parse(await new Response(output(process.execPath, peer, ...args)).text()) as Reading;
}

/** A snapshot from its first row to its last, without HTTP, against reading the same file. */
async function reading({ dir, sizes }: Bench): Promise<Row[]> {
  const path = join(dir, "rows.db");
  const rows = String(sizes.readRows);
  await new Response(output(process.execPath, join(ROOT, "bench/peers/rows_in_order.ts"), "build", path, rows)).text();
  await Bun.spawn(["sync", path]).exited; // what is not on the disk yet cannot leave the page cache
  const found: Row[] = [];
  let peak = 0;
  for (const cold of [true, false]) {
    const rounds: [ours: number, theirs: number][] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const live = await readOnce(path, cold, "live", path, rows);
      const raw = await readOnce(path, cold, "raw", path);
      rounds.push([live.bytes / 1e6 / live.seconds, raw.bytes / 1e6 / raw.seconds]);
      peak = Math.max(peak, live.peakMb);
    }
    const [ours, theirs] = [rounds.map(([own]) => own), rounds.map(([, other]) => other)] as const;
    const from = cold ? "the disk" : "the page cache";
    const rates = `${Math.round(median(ours))} MB/s against ${Math.round(median(theirs))} MB/s of a sequential read`;
    const ratio = ratios(ours, theirs);
    const what = `${sizes.readRows / 1e6}M rows in order from ${from}: ${rates}`;
    found.push(cold ? row(what, times(ratio), "≥ 0.8×", ratio >= 0.8) : row(what, times(ratio)));
  }
  return [...found, row(`memory that reading took`, `${Math.round(peak)} MB`, "≤ 64 MB", peak <= 64)];
}
