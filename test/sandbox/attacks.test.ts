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
import { makeKey, program, startBinary, tempDir, until } from "../harness.ts";
import { JAVASCRIPT_ATTACKS } from "./attacks_javascript.ts";
import { type Attack, PYTHON_ATTACKS } from "./attacks_python.ts";
import { asNobody, isRoot, NOBODY } from "./nobody.ts";

/**
 * Hostile reward code, sent to the executable, which runs as nobody. Whatever it does: the answer comes in time, says
 * what happened to each sample, and the server is as it was.
 */
const TOKEN = "token-of-the-host-7261";
const RSS_BYTES = 400e6;
const dir = tempDir();
const open = join(dir, "open");
const marker = join(open, "marker");
const secret = join(open, "secret.txt");
const rows = [0, 1].map((n) => ({ prompt: "p", completion: `c${n}` }));

let server: Awaited<ReturnType<typeof startBinary>>;
let key: string;
let connections = 0;
const listener = Bun.listen({
  hostname: "127.0.0.1",
  port: 0,
  socket: { open: () => void connections++, data: () => {} },
});

beforeAll(async () => {
  const data = join(dir, "data");
  for (const path of [data, open]) mkdirSync(path);
  writeFileSync(secret, "the host's");
  chmodSync(dir, 0o755);
  chmodSync(open, 0o777);
  chmodSync(secret, 0o644);
  if (isRoot) chownSync(data, NOBODY, NOBODY);
  server = await startBinary({
    dir: data,
    prefix: asNobody([]),
    env: {
      SECRET_OF_THE_HOST: TOKEN,
      VERK_SANDBOX__SAMPLE_TIMEOUT_MS: "1000",
      VERK_SANDBOX__BATCH_TIMEOUT_MS: "6000",
      VERK_SANDBOX__SPARE_SECONDS: "0",
      VERK_SANDBOX__MEMORY_MIB: "384",
    },
  });
  key = (await makeKey(data)).key;
});
afterAll(async () => {
  await server?.kill("SIGTERM");
  listener.stop(true);
  rmSync(dir, { recursive: true, force: true });
});

async function run(body: object, as = key): Promise<{ status: number; body: RunAnswer }> {
  const response = await fetch(`${server.url}/v1/reward_functions/run`, {
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

async function contained(attack: Attack, language: string) {
  const { status, body } = await run({ source: fill(attack.source), language: attack.language ?? language });
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
    const make = ["workspaces", "create", "other", "--data", join(dir, "data")];
    expect(await Bun.spawn(asNobody([...program(), ...make]), { stdout: "ignore" }).exited).toBe(0);
    const other = (await makeKey(join(dir, "data"), "--workspace", "other")).key;
    const seen: number[][] = [];
    const watched = async (as: string) => {
      const before = new Set(descendants(server.pid));
      const running = run({ source: MARKING }, as);
      const mine = await until("its process to run", () => {
        const now = descendants(server.pid).filter((pid) => !before.has(pid));
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
  test("good code scores as ever", async () => {
    const python = await run({ source: "def reward(completions, **kwargs):\n    return [0.25] * len(completions)\n" });
    expect(python.body.results.map(({ reward }) => reward)).toEqual([0.25, 0.25]);
    const javascript = await run({ source: "export const reward = ({ completions }) => completions.map(() => 0.75);" });
    expect(javascript.body.results.map(({ reward }) => reward)).toEqual([0.75, 0.75]);
  });

  test("the server's memory and its directory are small, and no process is left", async () => {
    const status = readFileSync(`/proc/${server.pid}/status`, "utf8");
    expect(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) * 1024).toBeLessThan(RSS_BYTES);
    expect(bytesUnder(join(dir, "data"))).toBeLessThan(64e6);
    await until("its children to be gone", () => descendants(server.pid).length === 0);
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
