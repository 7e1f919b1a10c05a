import { afterAll, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../test/harness.ts";
import { withExamples } from "../../resources/server/docs/examples.ts";
import { type Contract, openContract, operationsOf } from "./contract.ts";
import { bodyOf, missingIn, valuesOf } from "./example.ts";
import { codeOf, type Language, needsCurl, withKey } from "./languages.ts";

type Sent = { method: string; address: string; key: string | null; json: unknown };
let sent: Sent[] = [];
/** Notes each request and answers with JSON. */
const server = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  async fetch(request) {
    const { pathname, search } = new URL(request.url);
    const isForm = request.headers.get("content-type")?.startsWith("multipart/");
    const text = isForm ? "" : await request.text();
    const fields = isForm
      ? Object.fromEntries(
          [...(await request.formData())].map(([name, value]) => [
            name,
            typeof value === "string" ? value : value.name,
          ]),
        )
      : null;
    const key = request.headers.get("authorization") ?? request.headers.get("x-api-key");
    sent.push({
      method: request.method,
      address: pathname + search,
      key,
      json: fields ?? (text === "" ? null : JSON.parse(text)),
    });
    return Response.json({ id: "x" });
  },
});
const folder = tempDir();
afterAll(async () => {
  await server.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

const contract = withExamples(
  await Bun.file(join(import.meta.dir, "../../../docs/openapi.json")).json(),
) as unknown as Contract;
openContract(contract);
const operations = operationsOf(contract);
const codes = (language: Language) =>
  operations
    .filter((operation) => !needsCurl("python", operation))
    .map((operation) => {
      const origin = server.url.origin;
      return codeOf(language, operation, { origin, values: valuesOf(operation.parameters), body: bodyOf(operation) });
    });

async function requestsOf(language: Language): Promise<Sent[]> {
  sent = [];
  const all = codes(language);
  const env: Record<string, string> = { VERK_API_KEY: "vk_test" };
  for (const name of all.flatMap(missingIn)) env[name.slice(1)] = `value_of_${name.slice(1)}`;
  const run = { curl: ["sh", "code.sh"], python: ["python3", "code.py"], js: [process.execPath, "code.mjs"] }[language];
  const text = {
    curl: all
      .map((code) => code.split("\n\n# or")[0]?.replaceAll(/^curl /gm, "curl -sS --fail -o /dev/null "))
      .join("\n"),
    python: all.join("\n"),
    js: all.map((code) => `{\n${code}\n}`).join("\n"),
  }[language];
  writeFileSync(join(folder, run[1] as string), text);
  const child = Bun.spawn(run, {
    cwd: folder,
    env: { PATH: process.env["PATH"] ?? "", ...env },
    stdout: "ignore",
    stderr: "pipe",
  });
  const problem = await new Response(child.stderr).text();
  expect([language, await child.exited, problem]).toEqual([language, 0, ""]);
  return sent;
}

test.skipIf(Bun.which("curl") === null || Bun.which("python3") === null)(
  "the example of every route sends the same request in curl, Python and JavaScript",
  async () => {
    const curl = await requestsOf("curl");
    expect(curl.length).toBeGreaterThan(250);
    expect(await requestsOf("python")).toEqual(curl);
    expect(await requestsOf("js")).toEqual(curl);
  },
  60_000,
);

test("only a copy has the key in it, in the form that the language needs", () => {
  const operation = operations.find(({ id }) => id === "post_chat_completions");
  if (!operation) throw new Error("the contract has no chat");
  const of = (language: Language) => codeOf(language, operation, { origin: "http://x", values: {}, body: "{}" });
  for (const [language, header] of [
    ["curl", '-H "Authorization: Bearer vk_1"'],
    ["python", '"Authorization": "Bearer vk_1"'],
    ["js", "Authorization: `Bearer vk_1`"],
  ] as const) {
    expect(of(language)).not.toContain("vk_1");
    expect(withKey(of(language), "")).toBe(of(language));
    expect(withKey(of(language), "vk_1")).toContain(header);
    expect(withKey(of(language), "vk_1")).not.toContain("VERK_API_KEY");
  }
});

test("words and variables inside of texts stay as they are", () => {
  const operation = operations.find(({ id }) => id === "post_datasets");
  if (!operation) throw new Error("the contract has no datasets");
  const body = '{"a": "null and true", "b": [null, true, false], "c": "$JOB_ID"}';
  const python = codeOf("python", operation, { origin: "http://x", values: {}, body });
  expect(python).toContain('{"a": "null and true", "b": [None, True, False], "c": os.environ["JOB_ID"]}');
  expect(missingIn(python)).toEqual(["$JOB_ID"]);
});
