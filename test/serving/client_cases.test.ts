// tier: all (serves models)
/** The calls of programs that were written for OpenAI or llama.cpp, each against the executable. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { makeEncoder } from "../encoders.ts";
import { tempDir } from "../harness.ts";
import { BASIC, DELIBERATE } from "./cases/basic.ts";
import { CHATS } from "./cases/chats.ts";
import { FIELDS } from "./cases/fields.ts";
import { EXACT, GAPS, OTHERS } from "./cases/further.ts";
import type { Case, Post } from "./cases/kit.ts";
import { LLAMA } from "./cases/llama.ts";
import { MESSAGES } from "./cases/messages.ts";
import { EMBEDDINGS, RERANKS, TEXTS } from "./cases/texts.ts";
import { startServing } from "./served.ts";

setDefaultTimeout(60_000);
type Server = Awaited<ReturnType<typeof startServing>>;
const servers: Server[] = [];
let post: Post;
let postOthers: Post;
const MARKS = ["<|before|>", "<|behind|>", "<|between|>"] as const; // no names that the library knows

beforeAll(async () => {
  const settings = { VERK_HTTP__CORS_ORIGINS: "localhost" };
  const size = { context_length: 512, parallel: 4 };
  const tiny = await startServing({ settings });
  servers.push(tiny); // alone: requests without a model go to the only deployment
  const others = await startServing({
    files: { ranker: makeEncoder(tempDir(), { pooling: "rank" }) },
    models: { gaps: { arch: "llama", type: "F32", extraVocab: MARKS, gapTokens: MARKS } },
  });
  servers.push(others);
  await tiny.deploy({ model: "verk-tiny", name: "tiny", ...size });
  await others.deploy({ model: "ranker", name: "ranker" });
  await others.deploy({ model: "gaps", name: "gaps", ...size });
  [post, postOthers] = [callerOf(tiny), callerOf(others)];
}, 120_000);
afterAll(async () => {
  for (const server of servers) await server.stop();
});

function callerOf({ url, key }: Server): Post {
  const call = async (path: string, json?: unknown, headers: Record<string, string> = {}) => {
    const [method, where] = path.startsWith("/") ? ["POST", path] : (path.split(" ") as [string, string]);
    const given = Object.entries({ authorization: `Bearer ${key}`, ...headers }).filter(([, value]) => value !== "");
    const sent = Object.fromEntries(given.map(([name, value]) => [name, value === "KEY" ? key : value]));
    const answer = await fetch(`${url}${where}`, {
      method,
      headers: { ...sent, ...(json === undefined ? {} : { "content-type": "application/json" }) },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
    });
    const text = await answer.text();
    const isJson = answer.headers.get("content-type")?.startsWith("application/json");
    return { status: answer.status, headers: answer.headers, body: isJson ? JSON.parse(text) : text };
  };
  const leave = async (path: string, json: unknown) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const answer = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(json) });
    const reader = answer.body?.getReader();
    await reader?.read();
    await reader?.cancel();
  };
  return Object.assign(call, { leave });
}

const ALL = [BASIC, CHATS, FIELDS, TEXTS, RERANKS, EMBEDDINGS, MESSAGES, OTHERS, GAPS, EXACT, DELIBERATE];
const check = async (list: readonly Case[], run: Case[1]) =>
  expect(await run(list === RERANKS || list === GAPS ? postOthers : post)).toBe(true);

describe("llama.cpp's server tests", () => {
  for (const [name, list, wanted] of LLAMA) {
    const found = list.find(([own]) => own === wanted);
    if (!found) throw new Error(`no case is named ${wanted}`);
    test(`${name}${list === DELIBERATE ? ` (deliberate: ${wanted})` : ""}`, () => check(list, found[1]));
  }

  test("146 of 149 pass, and the rest differ on purpose", () => {
    expect(new Set(LLAMA.map(([name]) => name)).size).toBe(149);
    expect(LLAMA.filter(([, list]) => list !== DELIBERATE)).toHaveLength(146);
  });
});

describe("further calls", () => {
  const taken = (list: readonly Case[], name: string) =>
    LLAMA.some(([, from, wanted]) => from === list && wanted === name);
  for (const list of ALL) for (const [name, run] of list) if (!taken(list, name)) test(name, () => check(list, run));
});
