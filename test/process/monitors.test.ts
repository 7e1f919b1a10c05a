// tier: all (whole paths on the executable)
/** Online evaluation in the executable: a kill between two evaluations leaves one score for each captured request. */
import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { startBinary } from "../binary.ts";
import { tempDir, until } from "../harness.ts";

const dir = tempDir();
let server: Awaited<ReturnType<typeof startBinary>>;
afterAll(async () => {
  await server?.kill();
  rmSync(dir, { recursive: true, force: true });
});

async function call(method: string, path: string, body?: unknown) {
  const answer = await server.call(method, `/v1${path}`, body);
  if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
  return answer;
}
const make = async (path: string, body: object): Promise<string> => (await call("POST", path, body)).body.id;

/** Slow enough that a kill falls between two evaluations. */
const SLOW = `export const reward = ({ completion }) => {
  for (const end = Date.now() + 20; Date.now() < end; );
  return completion.length > 0 ? 1 : 0;
};`;
const REQUESTS = 60;

type Exported = { id: string; scores: { name: string }[] };
const scoreCounts = async (): Promise<number[]> => {
  const lines = (await call("GET", "/traces/export")).text.trim().split("\n");
  return lines.map((line) => (JSON.parse(line) as Exported).scores.length);
};

test("kill -9 during online evaluation: no request is scored twice, and none is left out", async () => {
  const env = { VERK_HTTP__RATE_LIMIT_PER_SECOND: "0" };
  server = await startBinary({ dir, env });
  const key = await server.apiKey();
  const deployment_id = await make("/deployments", { model: "verk-tiny", name: "demo", capture: "full" });
  const isServing = async () => (await call("GET", `/deployments/${deployment_id}`)).body.status === "serving";
  await until("the deployment to serve", isServing, 90_000);
  await make("/evaluators", { name: "slow", kind: "code", config: { language: "javascript", source: SLOW } });
  await make("/monitors", {
    name: "online",
    metric: "score_mean",
    score: "slow",
    deployment_id,
    thresholds: { alert: 0.5 },
    online_evaluation: { evaluator: "slow", sample_percent: 100 },
  });
  const messages = [{ role: "user", content: "1 + 1" }];
  for (let i = 0; i < REQUESTS; i++)
    await call("POST", "/chat/completions", { model: "demo", max_tokens: 1, temperature: 0, messages });
  await until("the first scores", async () => (await scoreCounts()).some((count) => count > 0), 30_000);
  await server.kill("SIGKILL");
  server = await startBinary({ dir, env, key });
  const counts = await until(
    "a score for each request",
    async () => {
      const found = await scoreCounts();
      return found.every((count) => count > 0) ? found : undefined;
    },
    60_000,
  );
  expect(counts).toEqual(Array.from({ length: REQUESTS }, () => 1));
}, 180_000);
