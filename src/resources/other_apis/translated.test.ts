import { expect, test } from "bun:test";
import { type Translator, translated } from "./translated.ts";

const translator: Translator<{ a: number }, { b: number }> = {
  whole: ({ a }) => ({ whole: a }),
  chunk: ({ b }) => `<${b}>`,
  end: () => "<end>",
  error: (message, code) => `<error ${message} ${code}>`,
};
const json = (body: object, status = 200) => Response.json(body, { status, headers: { "x-kept": "1" } });
const stream = (text: string, size: number) => {
  const bytes = new TextEncoder().encode(text);
  const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
    bytes.slice(i * size, (i + 1) * size),
  );
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const piece = pieces.shift();
      if (piece) controller.enqueue(piece);
      else controller.close();
    },
  });
  return new Response(body, { headers: { "content-type": "text/event-stream; charset=utf-8" } });
};

test("a whole answer is translated, with its status and headers; an error passes as it is", async () => {
  const answer = await translated(json({ a: 1 }), translator);
  expect([await answer.json(), answer.headers.get("x-kept")]).toEqual([{ whole: 1 }, "1"]);
  expect(answer.headers.get("content-type")).toBe("application/json");
  for (const status of [400, 503]) {
    const failed = json({ error: "no" }, status);
    expect(await translated(failed, translator)).toBe(failed);
  }
});

test.each([1, 5, 1_000])("a stream is translated however it is cut (%d bytes)", async (size) => {
  const events = ': wait\n\ndata: {"b":1}\n\nevent: x\ndata: {"b":2}\n\ndata: [DONE]\n\n';
  const answer = await translated(stream(events, size), translator);
  expect(answer.headers.get("content-type")).toBe("text/event-stream");
  expect(await answer.text()).toBe(": wait\n\n<1><2><end>");
  const own = await translated(stream(events, size), { ...translator, streamType: "application/x-ndjson", ping: " " });
  expect([await own.text(), own.headers.get("content-type")]).toEqual([" <1><2><end>", "application/x-ndjson"]);
});

test("an error ends a stream: nothing behind it is translated", async () => {
  const events =
    'data: {"b":1}\n\ndata: {"error":{"message":"full","code":"busy"}}\n\ndata: {"b":2}\n\ndata: [DONE]\n\n';
  expect(await (await translated(stream(events, 7), translator)).text()).toBe("<1><error full busy>");
  const silent = 'data: {"error":{}}\n\n';
  expect(await (await translated(stream(silent, 7), translator)).text()).toBe("<error The request failed undefined>");
});

test("a reader that leaves ends the source", async () => {
  const reasons: unknown[] = [];
  const source = new ReadableStream<Uint8Array>({ cancel: (reason) => void reasons.push(reason) });
  const answer = await translated(
    new Response(source, { headers: { "content-type": "text/event-stream" } }),
    translator,
  );
  await answer.body?.cancel("left");
  expect(reasons).toEqual(["left"]);
});
