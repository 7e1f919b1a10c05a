import { join } from "node:path";
import { type Load, loadOf, makeKey, median, type Row, remove, startPeer, startVerk, tempDir } from "./tools.ts";

const ROUNDS = 3;

/** Simulates a slower disk: the kernel delays every flush by a millisecond, for us and for the peers. */
const SLOW_DISK = [
  "strace",
  "-D", // the server stays our child, the tracer is the one detached
  "-f",
  "-qq",
  "--seccomp-bpf",
  "-o",
  "/dev/null",
  "-e",
  "trace=fsync,fdatasync",
  "-e",
  "inject=fsync,fdatasync:delay_exit=1000",
];

/**
 * Durable creations at 64 clients, each with its event and its entry in the audit log: flushes shared between requests,
 * against one commit and flush per request.
 */
export async function run(): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [disk, prefix] of [
    ["this disk", []],
    ["flush + 1 ms", SLOW_DISK],
  ] as [string, string[]][]) {
    const rounds: Record<"ours" | "wal" | "journal", Load>[] = [];
    for (let round = 0; round < ROUNDS; round++)
      rounds.push({
        ours: await measureVerk(prefix),
        wal: await measurePeer("wal", prefix),
        journal: await measurePeer("delete", prefix),
      });
    const [ours, wal, journal] = (["ours", "wal", "journal"] as const).map((who) =>
      middle(rounds.map((r) => r[who])),
    ) as [Load, Load, Load];
    const against = (peer: Load) => (ours.perSecond / peer.perSecond).toFixed(1);
    const say = (name: string, peer: Load) =>
      `${disk}: ${Math.round(ours.perSecond)}/s against ${Math.round(peer.perSecond)}/s, ${name}`;
    rows.push(
      {
        ...row(
          say("SQLite as it comes, a commit per request", journal),
          `${against(journal)}×`,
          "≥ 8×",
          ours.perSecond / journal.perSecond >= 8,
        ),
        figure: { name: `durable creations at 64 clients, ${disk}`, value: ours.perSecond, unit: "/s" },
      },
      row(
        say("WAL + FULL, a commit per request", wal),
        `${against(wal)}×`,
        disk === "this disk" ? "" : "≥ 8×",
        disk === "this disk" ? null : ours.perSecond / wal.perSecond >= 8,
      ),
      row(
        `${disk}: p99 at 64 clients (p50 ${ours.p50Ms.toFixed(1)} ms)`,
        `${ours.p99Ms.toFixed(1)} ms`,
        "≤ 25 ms",
        ours.p99Ms <= 25,
      ),
    );
  }
  return rows;
}

const middle = (loads: Load[]): Load => ({
  perSecond: median(loads.map((load) => load.perSecond)),
  p50Ms: median(loads.map((load) => load.p50Ms)),
  p99Ms: median(loads.map((load) => load.p99Ms)),
  bad: Math.max(...loads.map((load) => load.bad)),
});

const row = (what: string, value: string, target: string, ok: boolean | null): Row => ({
  bench: "write",
  what,
  value,
  target,
  ok,
});

async function measureVerk(prefix: string[]): Promise<Load> {
  const dir = tempDir();
  const verk = await startVerk(dir, prefix);
  const load = await post(`${verk.url}/v1/volumes`, await makeKey(dir));
  await verk.stop();
  remove(dir);
  return load;
}

async function measurePeer(journal: "wal" | "delete", prefix: string[]): Promise<Load> {
  const dir = tempDir();
  const peer = await startPeer("one_commit.ts", [join(dir, "peer.db"), journal], prefix);
  const load = await post(peer.url, "none");
  await peer.stop();
  remove(dir);
  return load;
}

/** Each request has its own name. The peers ignore the key. */
async function post(url: string, key: string): Promise<Load> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const send = (tag: string, seconds: number) =>
    loadOf({ url, method: "POST", headers, body: `{"name":"${tag}{n}"}`, seconds });
  await send("warm", 1);
  const load = await send("run", 5);
  if (load.bad > 0) throw new Error(`${load.bad} writes were refused`);
  return load;
}
