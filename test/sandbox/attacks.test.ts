// tier: all (many jails)
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { makeKey, program } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { JAVASCRIPT_ATTACKS } from "./attacks_javascript.ts";
import { type Attack, together } from "./attacks_kit.ts";
import { PYTHON_ATTACKS } from "./attacks_python.ts";
import { asNobody, isRoot, NOBODY } from "./nobody.ts";

/**
 * Hostile reward code, sent to the executable, which runs as an unprivileged user. For every attack the answer comes in
 * time and names the outcome of each sample, and the server is unchanged.
 */
const TOKEN = "token-of-the-host-7261";
const RSS_BYTES = 400e6;
const dir = tempDir();
const open = join(dir, "open");
const marker = join(open, "marker");
const secret = join(open, "secret.txt");
const rows = [0, 1].map((n) => ({ prompt: "p", completion: `c${n}` }));
/** For a batch of two, a fault that ends the process costs three processes: one for both samples, then one for each. */
const ENDS_PROCESS: readonly string[] = ["timeout", "memory", "crashed"];
/** One attack for each such fault still gets two samples. So does the one whose lie is about two. */
const PAIRED = new Set(["infinite loop", "memory bomb, list", "os._exit", "JSON is patched"]);

type Server = Awaited<ReturnType<typeof startBinary>> & { data: string; key: string };
/** Attacks that never end are cut off soon; all others get the time that they need on a busy machine too. */
let hasty: Server;
let patient: Server;
let connections = 0;
const listener = Bun.listen({
  hostname: "127.0.0.1",
  port: 0,
  socket: { open: () => void connections++, data: () => {} },
});

beforeAll(async () => {
  mkdirSync(open);
  writeFileSync(secret, "the host's");
  chmodSync(dir, 0o755);
  chmodSync(open, 0o777);
  chmodSync(secret, 0o644);
  hasty = await start("hasty", 500, 3000);
  patient = await start("patient", 30_000, 60_000);
}, 120_000);
afterAll(async () => {
  await Promise.all([hasty, patient].map((server) => server?.kill("SIGTERM")));
  listener.stop(true);
  rmSync(dir, { recursive: true, force: true });
});

async function start(name: string, sampleMs: number, batchMs: number): Promise<Server> {
  const data = join(dir, name);
  mkdirSync(data);
  if (isRoot) chownSync(data, NOBODY, NOBODY);
  const server = await startBinary({
    dir: data,
    prefix: asNobody([]),
    env: {
      SECRET_OF_THE_HOST: TOKEN,
      VERK_SANDBOX__SAMPLE_TIMEOUT_MS: String(sampleMs),
      VERK_SANDBOX__BATCH_TIMEOUT_MS: String(batchMs),
      VERK_SANDBOX__SPARE_SECONDS: "0",
      VERK_SANDBOX__MEMORY_MIB: "384",
    },
  });
  return { ...server, data, key: (await makeKey(data)).key };
}

async function run(body: object, { url, key }: Server, as = key): Promise<{ status: number; body: RunAnswer }> {
  const response = await fetch(`${url}/v1/reward_functions/run`, {
    method: "POST",
    headers: { authorization: `Bearer ${as}`, "content-type": "application/json" },
    body: JSON.stringify({ rows, ...body }),
  });
  return { status: response.status, body: (await response.json()) as RunAnswer };
}
type RunAnswer = {
  results: { reward: number | null; error: { kind: string } | null }[];
  stdout: string;
  error?: { code: string; message: string };
};

const fill = (source: string) =>
  source
    .replaceAll("{secret}", secret)
    .replaceAll("{marker}", marker)
    .replaceAll("{token}", TOKEN)
    .replaceAll("{port}", String(listener.port));

/** The outcomes of an attack in a process of its own. */
async function alone(attack: Attack, language: string, server: Server) {
  const isOne = attack.samples?.some((kind) => ENDS_PROCESS.includes(kind)) && !PAIRED.has(attack.name);
  const samples = isOne ? rows.slice(0, 1) : rows;
  const request = { source: fill(attack.source), language: attack.language ?? language, rows: samples };
  const answer = await run(request, server);
  if (!attack.rejected) expect(answer.body.results).toHaveLength(samples.length);
  return answer;
}

const SHARED = PYTHON_ATTACKS.filter(({ shares }) => shares);
let sent: ReturnType<typeof run> | undefined;
/** The outcome of an attack in a process with others. The first test that needs one sends them all. */
async function shared(attack: Attack) {
  const samples = SHARED.map((_, i) => ({ prompt: "p", completion: String(i) }));
  sent ??= run({ source: fill(together(SHARED)), rows: samples }, patient);
  const { status, body } = await sent;
  expect({ error: body.error ?? null, samples: body.results?.length }).toEqual({ error: null, samples: SHARED.length });
  return { status, body: { ...body, results: [body.results[SHARED.indexOf(attack)]!] } };
}

async function contained(attack: Attack, language: string) {
  const server = attack.rejected || attack.samples?.includes("timeout") ? hasty : patient;
  const { status, body } = await (attack.shares ? shared(attack) : alone(attack, language, server));
  if (attack.rejected) {
    expect({ status, code: body.error?.code }).toEqual({ status: 422, code: "reward_invalid" });
  } else {
    expect({ status, error: body.error ?? null }).toEqual({ status: 200, error: null });
    for (const { reward, error } of body.results) {
      const seen: string = error?.kind ?? (reward === null ? "none" : "score");
      expect<string[]>([...(attack.samples ?? [])]).toContain(seen);
      expect(reward).not.toBe(666);
    }
    expect(body.stdout.length).toBeLessThanOrEqual(65_536);
  }
  expect(existsSync(marker)).toBe(false);
  expect(connections).toBe(0);
  expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
}

describe("Python", () => {
  test.each(PYTHON_ATTACKS.map((attack) => [attack.name, attack] as const))("%s", (_, attack) =>
    contained(attack, "python"),
  );
});

describe("JavaScript", () => {
  test.each(JAVASCRIPT_ATTACKS.map((attack) => [attack.name, attack] as const))("%s", (_, attack) =>
    contained(attack, "javascript"),
  );
});

describe("two workspaces", () => {
  /** Leaves a mark in the interpreter, finds that of others, and takes long enough to be seen. */
  const MARKING = `
import json, time
def reward(completions, **kwargs):
    found = hasattr(json, "mark")
    json.mark = True
    until = time.time() + 0.5
    while time.time() < until: pass
    return [666.0 if found else 0.5] * len(completions)
`;

  test("never share a process, at the same time or one after the other", async () => {
    const { data, key, pid } = patient;
    const make = ["workspaces", "create", "other", "--data", data];
    expect(await Bun.spawn(asNobody([...program(), ...make]), { stdout: "ignore" }).exited).toBe(0);
    const other = (await makeKey(data, "--workspace", "other")).key;
    const seen: number[][] = [];
    const watched = async (as: string) => {
      const before = new Set(descendants(pid));
      const running = run({ source: MARKING }, patient, as);
      const mine = await until("its process to run", () => {
        const now = descendants(pid).filter((each) => !before.has(each));
        return now.length > 0 ? now : undefined;
      });
      seen.push(mine);
      return running;
    };
    const first = watched(key);
    await until("the first to run", () => seen.length === 1);
    const answers = [await watched(other), await first, await watched(other), await watched(key)];
    for (const { body } of answers) expect(body.results.map(({ reward }) => reward)).toEqual([0.5, 0.5]);
    expect(new Set(seen.flat()).size).toBe(seen.flat().length);
  });
});

describe("afterwards", () => {
  test("good code still scores", async () => {
    const python = await run(
      { source: "def reward(completions, **kwargs):\n    return [0.25] * len(completions)\n" },
      patient,
    );
    expect(python.body.results.map(({ reward }) => reward)).toEqual([0.25, 0.25]);
    const javascript = await run(
      { source: "export const reward = ({ completions }) => completions.map(() => 0.75);" },
      patient,
    );
    expect(javascript.body.results.map(({ reward }) => reward)).toEqual([0.75, 0.75]);
  });

  test("the servers' memory and directories are small, and no process is left", async () => {
    for (const { pid, data } of [hasty, patient]) {
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      expect(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) * 1024).toBeLessThan(RSS_BYTES);
      expect(bytesUnder(data)).toBeLessThan(64e6);
      await until("its children to be gone", () => descendants(pid).length === 0);
    }
  });
});

function bytesUnder(path: string): number {
  const names = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return names.reduce(
    (sum, { parentPath, name }) => sum + (statSync(join(parentPath, name), { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
}

function descendants(pid: number): number[] {
  const children = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => parentOf(name) === pid)
    .map(Number);
  return [...children, ...children.flatMap(descendants)];
}

function parentOf(pid: string): number | undefined {
  try {
    return Number(/\) \w (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))?.[1]);
  } catch {
    return undefined; // gone meanwhile
  }
}
