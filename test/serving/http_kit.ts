/** The HTTP interface of the serving worker over a fake engine, for its tests. */
import { afterAll, beforeAll } from "bun:test";
import { join } from "node:path";
import { ChatCompletionChunk } from "../../src/lib/chat/chat_completion.ts";
import { createRequestHandler, listen } from "../../src/workers/serving/http.ts";
import { toServed } from "../../src/workers/serving/request.ts";
import { tempDir } from "../harness.ts";
import { CHATML } from "../models.ts";
import { fakeEngine, type Script, type Step } from "./fake_engine.ts";

type Report = Parameters<Parameters<typeof createRequestHandler>[1]>[0];
export const ASK = { model: "m", messages: [{ role: "user", content: "hello" }] };

/** Serves a fake engine for the tests of one file. `play` sets the script of all later requests. */
export function httpWorker() {
  let script: Script = () => ["Hel", "lo"];
  const stopping = new AbortController();
  const reports: Report[] = [];
  const socket = join(tempDir(), "w.sock");
  const engine = fakeEngine((generation, sample) => script(generation, sample), { chatTemplate: CHATML });
  const handler = createRequestHandler(toServed(engine), (r) => void reports.push(r), stopping.signal);
  let server: ReturnType<typeof listen>;
  beforeAll(() => {
    server = listen(socket, handler.fetch);
  });
  afterAll(() => server.stop(true));

  const post = (path: string, body: unknown, init: RequestInit = {}) =>
    fetch(`http://worker${path}`, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "x-verk-request": "req_1" },
      unix: socket,
      ...init,
    } as RequestInit);
  const play = (next: Script) => {
    script = next;
  };
  const scripted = (...steps: Step[]) => play(() => steps);
  const lastPrompt = () => engine.detokenize(engine.requests.at(-1)!.prompt);
  return { engine, handler, lastPrompt, play, post, reports, scripted, socket, stopping };
}

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was answered
export const json = async (response: Response) => (await response.json()) as any;
export const events = (text: string) =>
  text
    .split("\n\n")
    .filter((line) => line !== "")
    .map((line) => line.replace(/^data: /, ""));
export const chunks = (text: string) =>
  events(text)
    .filter((event) => event !== "[DONE]")
    .map((event) => ChatCompletionChunk.unwrap().strict().parse(JSON.parse(event)));
