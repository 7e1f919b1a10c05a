// tier: all (every block of the documents)
/** Runs the commands of the API reference against a real server, as a reader copies them. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { type Contract, type Operation, openContract, operationsOf } from "../../src/dashboard/reference/contract.ts";
import { bodyOf, createdBy, curlOf, valuesOf } from "../../src/dashboard/reference/example.ts";
import { EXAMPLES } from "../../src/resources/server/docs/examples.ts";
import { startBinary } from "../binary.ts";
import { tempDir, until } from "../harness.ts";

let server: Awaited<ReturnType<typeof startBinary>>;
let operations: Operation[] = [];
/** The variables of a reader's shell. */
const variables: Record<string, string> = {};
const folder = tempDir();

beforeAll(async () => {
  server = await startBinary();
  variables["VERK_API_KEY"] = await server.apiKey();
  const contract = (await server.call("GET", "/openapi.json")).body as Contract;
  openContract(contract);
  operations = operationsOf(contract);
});
afterAll(async () => {
  await server.kill();
  for (const dir of [server.dir, folder]) rmSync(dir, { recursive: true, force: true });
});

/** The answers of the command's requests. `-f` makes curl fail on an error status, `-s` hides its progress. */
async function run(command: string): Promise<string> {
  const script = `set -eu\n${command.replaceAll(/^curl /gm, "curl -sS --fail-with-body ")}`;
  const child = Bun.spawn(["sh", "-c", script], {
    cwd: folder,
    env: { ...process.env, ...variables },
    stderr: "pipe",
  });
  const [text, problem, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  expect([command, code, code === 0 ? "" : text + problem]).toEqual([command, 0, ""]);
  return text;
}

const isServing = async () => (await server.call("GET", "/v1/deployments")).body.data[0]?.status === "serving";

test.skipIf(Bun.which("curl") === null).each(Object.keys(EXAMPLES))(
  "F9 the example of %s works",
  async (name) => {
    const operation = operations.find(({ method, path }) => `${method.toUpperCase()} ${path}` === name);
    if (!operation) throw new Error(`${name} is not in the document`);
    const { path, parameters } = operation;
    if (path === "/v1/chat/completions") await until("the deployment of the example before to serve", isServing);
    if (path.endsWith("/logs")) await server.call("POST", `/v1/training_jobs/${variables["JOB_ID"]}/cancel`); // ends the log
    const text = await run(curlOf(operation, server.url, valuesOf(parameters), bodyOf(operation)));
    const saved = createdBy(operation);
    if (saved !== undefined) variables[saved.slice(1)] = /"id":"(\w+)"/.exec(text)?.[1] ?? "";
  },
  120_000,
);

test("F9 at least twenty routes have an example; none publishes a run, and none is a dry run", () => {
  expect(Object.keys(EXAMPLES).length).toBeGreaterThanOrEqual(20);
  expect(JSON.stringify(EXAMPLES)).not.toMatch(/"(publish|dry_run)"/);
});
