import { expect, test } from "bun:test";
import { until } from "../../../test/harness.ts";
import { AppError } from "../../lib/errors.ts";
import { encodeSse, type SseMessage } from "../../lib/net/sse.ts";
import { createLog, silentLog } from "../../platform/log.ts";
import { sse } from "./sse.ts";

const anyone = { workspaceId: "ws_a", keyId: "key_a", scopes: ["*"] } as const;
const ctx = {
  closing: new AbortController().signal,
  authenticate: () => anyone,
  authenticateSession: () => ({ ...anyone, sessionId: "", csrf: "" }),
  log: silentLog,
};
const request = new Request("http://localhost/stream");

test("a message is its id, event and one line of JSON", () => {
  expect(encodeSse({ id: "evt_1", event: "x.y", data: { text: "a\nb" } })).toBe(
    'id: evt_1\nevent: x.y\ndata: {"text":"a\\nb"}\n\n',
  );
  expect(encodeSse({ id: "evt_1" })).toBe("id: evt_1\n\n");
  expect(encodeSse({ comment: "two\nlines" })).toBe(": two lines\n\n");
});

test("the stream ends with its source and begins with the retry hint", async () => {
  const response = sse(
    ctx,
    request,
    async function* () {
      yield { data: 1 };
      yield { data: 2 };
    },
    { retryMs: 10 },
  );
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  expect(await response.text()).toBe("retry: 10\n\ndata: 1\n\ndata: 2\n\n");
});

test("a reader that leaves ends the source", async () => {
  const left = Promise.withResolvers<void>();
  const response = sse(ctx, request, async function* (signal): AsyncGenerator<SseMessage> {
    try {
      yield { data: 1 };
      await new Promise<void>((done) => signal.addEventListener("abort", () => done(), { once: true }));
    } finally {
      left.resolve();
    }
  });
  const reader = response.body!.getReader();
  let seen = "";
  while (!seen.includes("data: 1")) seen += new TextDecoder().decode((await reader.read()).value);
  await reader.cancel();
  await left.promise;
});

test("a closing server ends the stream", async () => {
  const closing = new AbortController();
  const response = sse(
    { ...ctx, closing: closing.signal },
    request,
    async function* (signal): AsyncGenerator<SseMessage> {
      yield { data: 1 };
      if (!signal.aborted)
        await new Promise<void>((done) => signal.addEventListener("abort", () => done(), { once: true }));
    },
  );
  const text = response.text();
  closing.abort();
  expect(await text).toContain("data: 1");
});

const idle = async function* (signal: AbortSignal): AsyncGenerator<SseMessage> {
  yield { data: 1 };
  await new Promise<void>((done) => signal.addEventListener("abort", () => done(), { once: true }));
};

test("a key that is no longer valid ends an idle stream", async () => {
  let good = true;
  const authenticate = () => {
    if (good) return anyone;
    throw new AppError("revoked_api_key", "This API key was revoked");
  };
  const reader = sse({ ...ctx, authenticate }, request, idle, { heartbeatMs: 1 }).body!.getReader();
  let seen = "";
  while (!seen.includes("heartbeat")) seen += new TextDecoder().decode((await reader.read()).value);
  good = false;
  while (!(await reader.read()).done);
});

test("a source that breaks ends its stream, is logged once, and its heartbeat stops", async () => {
  const lines: string[] = [];
  const log = createLog({ write: (line) => void lines.push(line) });
  const broken = async function* (): AsyncGenerator<SseMessage> {
    yield { data: 1 };
    throw new Error("the disk is gone");
  };
  let polls = 0;
  const authenticate = () => {
    polls++;
    return anyone;
  };
  const response = sse({ ...ctx, authenticate, log }, request, broken, { heartbeatMs: 1 });
  await expect(response.text()).rejects.toThrow("the disk is gone");
  const [before, since] = [polls, performance.now()];
  await until("heartbeats that would have been", () => performance.now() > since + 10);
  expect(polls).toBe(before);
  expect(lines.filter((line) => line.includes("the disk is gone"))).toHaveLength(1);
});

test("a HEAD request starts no source", () => {
  const head = new Request("http://localhost/stream", { method: "HEAD" });
  const response = sse(ctx, head, () => {
    throw new Error("started");
  });
  expect(response.headers.get("content-type")).toBe("text/event-stream");
});

test("a client that hangs up is no failure", async () => {
  const lines: string[] = [];
  const log = createLog({ write: (line) => void lines.push(line) });
  const left = Promise.withResolvers<void>();
  const source = async function* (signal: AbortSignal): AsyncGenerator<SseMessage> {
    yield* idle(signal);
    left.resolve();
  };
  using server = Bun.serve({ port: 0, fetch: (incoming) => sse({ ...ctx, log }, incoming, source) });
  const client = new AbortController();
  const { body } = await fetch(server.url, { signal: client.signal });
  await body!.getReader().read();
  client.abort();
  await left.promise;
  await new Promise(setImmediate);
  expect(lines).toEqual([]);
});
