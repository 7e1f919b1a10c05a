/** Rule 1 of the platform's contract: every response object has a string field `object`. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { isServicePath } from "../../src/http/answer/service_errors.ts";

type Schema = {
  $ref?: string;
  type?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  const?: unknown;
};
type Content = Record<string, { schema?: Schema }>;
type Operation = { responses: Record<string, { content?: Content }> };

/** The contract shows these answers without `object`, or as maps and plain lists, or in the form of other clients. */
const WITHOUT = [
  "GET /openapi.json",
  /^GET \/v1\/billing\//,
  /^POST \/v1\/billing\//,
  /^POST \/v1\/workspaces\/\{id\}\/credits$/,
  /^(GET|POST) \/(completion|infill|tokenize|detokenize|apply-template|props|slots|lora-adapters)$/, // llama.cpp's
  /^(GET|POST|DELETE) \/v1\/messages/, // Anthropic's
  /^\w+ \/v1beta\//, // Google's
  /^POST \/models\//, // Hugging Face's
  /^POST \/v1\/fine_tuning\/alpha\/graders\//, // OpenAI's
  /^\w+ \/api\/(chat|generate|embed|embeddings|tags|show|ps|version|pull|push|delete|copy|create)$/, // Ollama's
  "GET /v1/responses/{id}/input_items", // its items are OpenAI's
  /^\w+ \/v1\/conversations\/\{id\}\/items/, // the same
  "GET /v1/chat/completions/{id}/messages", // and its messages
  "POST /v1/otlp/v1/traces", // the answer of OTLP/HTTP
  "POST /v1/traces",
  "DELETE /v1/files/{id}", // object, or the type of Anthropic
  "POST /v1/moderations", // OpenAI's
  "GET /v1/cost/by_day", // a plain list, as its neighbours
  "GET /v1/cost/by_gpu",
  "GET /v1/cost/by_provider",
  "GET /v1/cost/compare",
  "GET /v1/cost/rates",
];
const isExempt = (call: string) => WITHOUT.some((each) => (typeof each === "string" ? each === call : each.test(call)));

/** Routes that clients of two formats share have a second answer for those of Anthropic. */
const isAnthropic = ({ $ref }: Schema) => $ref?.includes("/Anthropic") ?? false;

test("P1 object: every JSON answer of the platform, and every item of a list, names its type", async () => {
  const document = await Bun.file(join(import.meta.dir, "../../docs/openapi.json")).json();
  const resolve = (schema: Schema): Schema =>
    schema.$ref ? resolve(document.components.schemas[schema.$ref.split("/").at(-1) as string]) : schema;
  const lacks = (given: Schema): boolean => {
    const schema = resolve(given);
    const members = schema.anyOf ?? schema.oneOf;
    if (members) return members.some((each) => each.type !== "null" && !isAnthropic(each) && lacks(each));
    if (schema.properties?.["object"] === undefined) return true;
    const items = schema.properties["object"].const === "list" ? schema.properties["data"]?.items : undefined;
    return items !== undefined && lacks(items);
  };
  const missing: string[] = [];
  for (const [path, operations] of Object.entries(document.paths as Record<string, Record<string, Operation>>))
    for (const [method, { responses }] of Object.entries(operations))
      for (const [status, { content }] of Object.entries(responses)) {
        const call = `${method.toUpperCase()} ${path}`;
        const schema = content?.["application/json"]?.schema;
        if (status === "default" || !schema || isServicePath(path) || isExempt(call)) continue;
        if (lacks(schema)) missing.push(call);
      }
  expect(missing).toEqual([]);
});
