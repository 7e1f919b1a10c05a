/**
 * Signed deliveries over TLS, beside the plain loop in the same round; and what endpoints that never answer cost
 * others.
 */
import { join } from "node:path";
import {
  makeKey,
  median,
  processorSeconds,
  ROOT,
  type Row,
  type Running,
  remove,
  startPeer,
  startVerk,
  tempDir,
} from "./tools.ts";

const TLS = join(ROOT, "test/fixtures/tls");
const ENDPOINTS = 20;
const TARPITS = 10;
const ROUNDS = 3;
const BURSTS = 3;
const FAIR_ROUNDS = 10;
const SIZES = {
  full: { events: 500, loop: 3_000, slowLoop: 200, paced: 200, warmSeconds: 8 },
  quick: { events: 100, loop: 500, slowLoop: 50, paced: 40, warmSeconds: 1 },
};
const PACE_MS = 20;

type Received = { count: number; seconds: number; p50Ms: number; p99Ms: number };
type Bench = { dir: string; verk: Running; key: string; hooks: string; traps: string; seen: string; dataset: string };

export async function run({ quick = false } = {}): Promise<Row[]> {
  const dir = tempDir();
  const certificate = [join(TLS, "server.pem"), join(TLS, "server.key")];
  const receiver = await startPeer("webhook_receiver.ts", certificate);
  const [hooks = "", seen = ""] = receiver.url.split(" ");
  const trapper = await startPeer("webhook_receiver.ts", certificate); // its handshakes must not delay the others'
  const [traps = ""] = trapper.url.split(" ");
  const config = join(dir, "bench.toml");
  await Bun.write(config, `[network]\nallow = ["127.0.0.1"]\nca_file = "${join(TLS, "ca.pem")}"\n`);
  const verk = await startVerk(dir, [], ["--config", config]);
  const bench: Bench = { dir, verk, key: await makeKey(dir, "*"), hooks, traps, seen, dataset: "" };
  try {
    bench.dataset = (await call<{ id: string }>(bench, "POST", "/datasets", { name: "b", format: "prompt" })).id;
    const sizes = SIZES[quick ? "quick" : "full"];
    return [...(await throughput(bench, sizes)), ...(await fairness(bench, sizes))];
  } finally {
    await verk.stop();
    await receiver.stop();
    await trapper.stop();
    remove(dir);
  }
}

const row = (what: string, value: string, target = "", ok: boolean | null = null): Row => ({
  bench: "webhooks",
  what,
  value,
  target,
  ok,
});

async function call<T>({ verk, key }: Bench, method: string, path: string, body?: unknown): Promise<T> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
  const answer = await fetch(`${verk.url}/v1${path}`, init);
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as T;
}

async function addEndpoints(bench: Bench, path: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let i = 0; i < count; i++)
    ids.push(
      (
        await call<{ id: string }>(bench, "POST", "/webhooks", {
          url: `${path === "tarpit" ? bench.traps : bench.hooks}/${path}?${i}`,
        })
      ).id,
    );
  return ids;
}

const removeAll = async (bench: Bench, ids: readonly string[]) => {
  for (const id of ids) await call(bench, "DELETE", `/webhooks/${id}`);
};

/** One append is one event, and a delivery to each endpoint. */
const happen = (bench: Bench) =>
  call(bench, "POST", `/datasets/${bench.dataset}/rows`, { rows: [{ prompt: "hello" }] });

const forget = ({ seen }: Bench) => fetch(seen, { method: "DELETE" });

async function arrived({ seen }: Bench, count: number): Promise<Received> {
  for (;;) {
    const report = (await (await fetch(seen)).json()) as Received;
    if (report.count >= count) return report;
    await Bun.sleep(20);
  }
}

/** Deliveries a second, from the first arrival to the last. */
async function burst(bench: Bench, events: number): Promise<number> {
  await forget(bench);
  await Promise.all(Array.from({ length: events }, () => happen(bench)));
  const { count, seconds } = await arrived(bench, events * ENDPOINTS);
  return count / seconds;
}

type Plain = { path: string; count: number; connections: "kept" | "fresh"; warmSeconds: number };

async function loop({ dir, hooks }: Bench, { path, count, connections, warmSeconds }: Plain) {
  const db = join(dir, `loop-${crypto.randomUUID()}.db`);
  const args = [db, `${hooks}/${path}`, join(TLS, "ca.pem"), String(count), connections, String(warmSeconds)];
  const script = join(ROOT, "bench/peers/webhook_loop.ts");
  const child = Bun.spawn([process.execPath, script, ...args], { stderr: "inherit" });
  return Number(await new Response(child.stdout).text());
}

/** The compiler is done with the hot paths by then; the plain loop is given as long. */
async function warm(bench: Bench, { events, warmSeconds }: (typeof SIZES)["full"]) {
  const until = performance.now() + 1000 * warmSeconds;
  while (performance.now() < until) await burst(bench, events);
}

async function throughput(bench: Bench, sizes: (typeof SIZES)["full"]): Promise<Row[]> {
  const { loop: count, slowLoop, warmSeconds } = sizes;
  const found = { ours: [] as number[], kept: [] as number[], fresh: [] as number[] };
  const slow = { ours: [] as number[], kept: [] as number[] };
  const work: number[] = []; // microseconds of the server's processor time for each delivery
  const quickOnes = await addEndpoints(bench, "hook", ENDPOINTS);
  await warm(bench, sizes);
  for (let round = 0; round < ROUNDS; round++) {
    for (let i = 0; i < BURSTS; i++) {
      const usedSeconds = processorSeconds(bench.verk.pid);
      found.ours.push(await burst(bench, sizes.events));
      work.push((1e6 * (processorSeconds(bench.verk.pid) - usedSeconds)) / (sizes.events * ENDPOINTS));
    }
    found.kept.push(await loop(bench, { path: "hook", count, connections: "kept", warmSeconds }));
    found.fresh.push(await loop(bench, { path: "hook", count, connections: "fresh", warmSeconds }));
  }
  await removeAll(bench, quickOnes);
  const slowOnes = await addEndpoints(bench, "slow", ENDPOINTS);
  await burst(bench, 10); // connections, windows
  for (let round = 0; round < ROUNDS; round++) {
    slow.ours.push(await burst(bench, sizes.events));
    slow.kept.push(await loop(bench, { path: "slow", count: slowLoop, connections: "kept", warmSeconds: 0 }));
  }
  await removeAll(bench, slowOnes);
  const [ours, kept, fresh] = [median(found.ours), median(found.kept), median(found.fresh)];
  const [oursSlow, keptSlow] = [median(slow.ours), median(slow.kept)];
  const against = (name: string, mine: number, theirs: number, target = "") =>
    row(
      `${Math.round(mine)}/s against ${Math.round(theirs)}/s, ${name}`,
      `${(mine / theirs).toFixed(1)}×`,
      target && `≥ ${target}×`,
      target ? mine / theirs >= Number(target) : null,
    );
  return [
    {
      ...row(`signed deliveries to ${ENDPOINTS} endpoints`, `${Math.round(ours)}/s`, "≥ 1500/s", ours >= 1500),
      figure: { name: "signed webhooks", value: ours, unit: "/s" },
    },
    {
      ...row("the same: processor time of the server for each", `${median(work).toFixed(0)} µs`),
      figure: { name: "processor time of a signed webhook", value: median(work), unit: "µs" },
    },
    against("one after another, a connection each", ours, fresh, "8"),
    against("one after another, the connection kept", ours, kept),
    against("one after another, kept, at a receiver that takes 10 ms", oursSlow, keptSlow),
  ];
}

/** Events at a steady pace: how long until the first attempt arrives. */
async function paced(bench: Bench, events: number): Promise<Received> {
  await forget(bench);
  for (let i = 0; i < events; i++) await Promise.all([happen(bench), Bun.sleep(PACE_MS)]);
  return await arrived(bench, events * ENDPOINTS);
}

async function fairness(bench: Bench, sizes: (typeof SIZES)["full"]): Promise<Row[]> {
  await addEndpoints(bench, "hook", ENDPOINTS);
  await paced(bench, 20);
  const alone: Received[] = [];
  const among: Received[] = [];
  for (let round = 0; round < FAIR_ROUNDS; round++) {
    const before = await paced(bench, sizes.paced);
    const tarpits = await addEndpoints(bench, "tarpit", TARPITS);
    const beside = await paced(bench, sizes.paced);
    await removeAll(bench, tarpits);
    if (round === 0) continue; // the first of each warms
    alone.push(before);
    among.push(beside);
  }
  const p99 = (seen: readonly Received[]) => median(seen.map(({ p99Ms }) => p99Ms));
  // Each round against its neighbour: the slowest of a hundred drift with the machine, by more than is asked about.
  const shift = median(among.map(({ p99Ms }, i) => p99Ms / (alone[i] as Received).p99Ms)) - 1;
  const what = `first attempts' p99 beside ${TARPITS} tarpits ${p99(among)} ms, without ${p99(alone)} ms`;
  return [row(what, `${(100 * shift).toFixed(0)} %`, "< 10 %", shift < 0.1)];
}
