/** Sends every example of the API reference to a real server. A reader copies them as they stand. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { DATASET_ID, EXAMPLES } from "../../src/resources/docs/examples.ts";
import { startBinary } from "../binary.ts";
import { until } from "../harness.ts";

let server: Awaited<ReturnType<typeof startBinary>>;
let dataset = "";
const ROWS = '{"prompt":"What is 2 + 2?","answer":4}\n{"prompt":"What is 3 + 4?","answer":7}\n';

/** Fields and files of `curl -F`. */
function formOf(fields: Record<string, string>): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields))
    if (value.startsWith("@")) form.append(name, new File([ROWS], value.slice(1)));
    else form.append(name, value);
  return form;
}

beforeAll(async () => {
  server = await startBinary();
  const { body, status } = await server.call("POST", "/v1/datasets", formOf(EXAMPLES["POST /v1/datasets"]?.form ?? {}));
  expect([status, body.num_rows]).toEqual([201, 2]);
  dataset = body.id;
});
afterAll(async () => {
  await server.kill();
  rmSync(server.dir, { recursive: true, force: true });
});

const here = (value: unknown): unknown => JSON.parse(JSON.stringify(value).replaceAll(DATASET_ID, dataset));

test.each(Object.entries(EXAMPLES))(
  "F9 the example of %s works",
  async (operation, { json }) => {
    const path = (operation.split(" ")[1] ?? "").replace("{id}", dataset);
    if (path === "/v1/chat/completions") {
      const serving = async () => (await server.call("GET", "/v1/deployments")).body.data[0]?.status === "serving";
      await until("the deployment of the example before to serve", serving);
    }
    const { status, body } = await server.call("POST", path, here(json));
    expect([operation, status, status < 300 ? "" : body]).toEqual([operation, expect.any(Number), ""]);
    if (path === "/v1/training_jobs") await server.call("POST", `${path}/${body.id}/cancel`);
  },
  120_000,
);

test("F9 no example publishes a run, and none is a dry run", () => {
  expect(JSON.stringify(EXAMPLES)).not.toMatch(/"(publish|dry_run)"/);
  expect(Object.keys(EXAMPLES)).toHaveLength(10);
});
