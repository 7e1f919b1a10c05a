import { expect, test } from "bun:test";
import { answerOf, curlOf, requestOf, rowOf } from "./request.ts";
import type { Trace } from "./types.ts";

const messages = [{ role: "user", content: "it's <b>2</b>" }];
const trace = (more: Partial<Trace>): Trace =>
  ({ source: "chat", input: messages, output: null, parameters: { temperature: 0, stream: true }, ...more }) as Trace;

test("a trace becomes the request that made it, without streaming", () => {
  expect(requestOf(trace({}), "demo")).toEqual({
    path: "/v1/chat/completions",
    body: { model: "demo", messages, temperature: 0 },
  });
  expect(requestOf(trace({ source: "completion", input: "1 +" }), "demo")?.body).toMatchObject({ prompt: "1 +" });
  expect(requestOf(trace({ source: "rollout", input: "2 + 2" }), "demo")?.body["messages"]).toEqual([
    { role: "user", content: "2 + 2" },
  ]);
  expect(requestOf(trace({ input: null }), "demo")).toBeUndefined();
  expect(requestOf(trace({ source: "embedding", input: "x" }), "demo")).toBeUndefined();
});

test("a shell gives curl the exact body, whatever quotes it has", async () => {
  const request = requestOf(trace({}), "demo");
  if (!request) throw new Error("no request");
  const command = curlOf(request, "http://localhost:7070").replace("curl", "printf '%s\\n'");
  const lines = (await Bun.$`sh -c ${command}`.text()).trimEnd().split("\n");
  expect(lines[0]).toBe("http://localhost:7070/v1/chat/completions");
  expect(JSON.parse(lines.at(-1) ?? "")).toEqual(request.body);
});

test("a row has the form of its dataset", () => {
  expect(rowOf(trace({}), "4", "chat")).toEqual({ messages: [...messages, { role: "assistant", content: "4" }] });
  expect(rowOf(trace({}), "4", "completion")).toEqual({ prompt: "it's <b>2</b>", completion: "4" });
  const two = [{ role: "system", content: "s" }, ...messages];
  expect(rowOf(trace({ input: two }), "4", "prompt")).toEqual({ prompt: two, answer: "4" });
  expect(answerOf([{ role: "assistant", content: "4" }])).toBe("4");
});
