import { expect, test } from "bun:test";
import { encodeSse, type SseMessage, sse } from "./sse.ts";

const never = new AbortController().signal;

test("a message is its id, event and one line of JSON", () => {
  expect(encodeSse({ id: "evt_1", event: "x.y", data: { text: "a\nb" } })).toBe(
    'id: evt_1\nevent: x.y\ndata: {"text":"a\\nb"}\n\n',
  );
  expect(encodeSse({ comment: "two\nlines" })).toBe(": two lines\n\n");
});

test("the stream ends with its source and begins with the retry hint", async () => {
  const response = sse(
    async function* () {
      yield { data: 1 };
      yield { data: 2 };
    },
    { closing: never, retryMs: 10 },
  );
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  expect(await response.text()).toBe("retry: 10\n\ndata: 1\n\ndata: 2\n\n");
});

test("a reader that leaves ends the source", async () => {
  const left = Promise.withResolvers<void>();
  const response = sse(
    async function* (signal): AsyncGenerator<SseMessage> {
      try {
        yield { data: 1 };
        await new Promise<void>((done) => signal.addEventListener("abort", () => done(), { once: true }));
      } finally {
        left.resolve();
      }
    },
    { closing: never },
  );
  const reader = response.body!.getReader();
  let seen = "";
  while (!seen.includes("data: 1")) seen += new TextDecoder().decode((await reader.read()).value);
  await reader.cancel();
  await left.promise;
});

test("a closing server ends the stream", async () => {
  const closing = new AbortController();
  const response = sse(
    async function* (signal): AsyncGenerator<SseMessage> {
      yield { data: 1 };
      if (!signal.aborted)
        await new Promise<void>((done) => signal.addEventListener("abort", () => done(), { once: true }));
    },
    { closing: closing.signal },
  );
  const text = response.text();
  closing.abort();
  expect(await text).toContain("data: 1");
});
