/** Demo steps that run user code: a reward function, and a command in a session. */
import type { RewardFunction, RewardRun } from "../../resources/training/reward_functions/schema.ts";
import { ApiError, type Client } from "../client.ts";

const SOURCE = `import re

def reward(completions, answer, **kwargs):
    numbers = [re.findall(r"-?\\d+", text) for text in completions]
    return [float(bool(found) and int(found[-1]) == right) for found, right in zip(numbers, answer)]
`;
const BROKEN = "def reward(completions, **kwargs)\n    return []\n";
const ROWS = [
  { prompt: "What is 12 times 12?", completion: "It is 144.", answer: 144 },
  { prompt: "What is 7 times 7?", completion: "7 * 7 = 49", answer: 49 },
  { prompt: "What is 5 times 5?", completion: "Maybe 24?", answer: 25 },
  { prompt: "What is 3 times 3?", completion: "no idea", answer: 9 },
];

/** A syntax error is reported with its line. The corrected version is ready. */
export async function upload(client: Client): Promise<string> {
  const send = async (source: string) =>
    (await client.call<RewardFunction>("POST", "/v1/reward_functions", { name: "squares", source })).body;
  const broken = await send(BROKEN);
  if (broken.status !== "invalid" || broken.error?.line !== 1)
    throw new Error(`the broken code was not rejected as expected: ${JSON.stringify(broken)}`);
  const good = await send(SOURCE);
  if (good.status !== "ready") throw new Error(`the correct code was rejected: ${good.error?.message}`);
  return `squares@${broken.version}: ${broken.error.message}, line ${broken.error.line}; @${good.version} is ready`;
}

export async function run(client: Client): Promise<string> {
  const { body } = await client.call<RewardRun>("POST", "/v1/reward_functions/squares/run", { rows: ROWS });
  const rewards = body.results.map(({ reward }) => reward);
  if (rewards.join() !== "1,1,0,0")
    throw new Error(`the rewards are ${rewards.join()}: ${JSON.stringify(body.summary)}`);
  return `rewards ${rewards.join(" ")}, mean ${body.summary.mean}`;
}

type Session = { id: string; status: string };
type Exec = { status: string; exit_code: number | null; stdout: string; stderr: string };
const TIMEOUT_MS = 30_000;

/** Some hosts do not let an ordinary user create namespaces. The step is then skipped with the reason. */
export async function session(client: Client, signal: AbortSignal): Promise<string> {
  try {
    const { id } = (await client.call<Session>("POST", "/v1/sessions", { name: "demo" })).body;
    await until(client, id, "ready", signal);
    const command = "echo $((6 * 7)) > answer && cat answer && id -u && ls /";
    const { body } = await client.call<Exec>("POST", `/v1/sessions/${id}/exec`, { command });
    if (body.exit_code !== 0 || !body.stdout.startsWith("42\n"))
      throw new Error(`unexpected result: ${JSON.stringify(body)}`);
    await client.call("POST", `/v1/sessions/${id}/stop`);
    await until(client, id, "stopped", signal);
    return `${id} answered 42, then stopped`;
  } catch (error) {
    if (error instanceof ApiError && error.code === "sessions_disabled") return `skipped: ${error.message}`;
    throw error;
  }
}

const TRANSIENT = ["creating", "ready", "stopping"];

async function until(client: Client, id: string, target: "ready" | "stopped", signal: AbortSignal) {
  const deadline = performance.now() + TIMEOUT_MS;
  for (;;) {
    const { status } = (await client.call<Session>("GET", `/v1/sessions/${id}`, undefined, { signal })).body;
    if (status === target) return;
    if (!TRANSIENT.includes(status) || performance.now() > deadline) throw new Error(`the session is ${status}`);
    await Bun.sleep(10);
  }
}
