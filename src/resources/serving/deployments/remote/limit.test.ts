import { expect, test } from "bun:test";
import { MIB } from "../../../../lib/units.ts";
import { limited } from "./limit.ts";

function answer(parts: Iterable<string>, type: string): Response {
  const left = parts[Symbol.iterator]();
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const { done, value } = left.next();
      if (done) controller.close();
      else controller.enqueue(new TextEncoder().encode(value));
    },
  });
  return new Response(body, { headers: { "content-type": type } });
}
function* times(count: number, part: string) {
  for (let i = 0; i < count; i++) yield part;
}
const JSON_TYPE = "application/json";
const EVENTS = "text/event-stream";
const tooLong = { message: expect.stringContaining("answered with more than") };
const failure = (response: Response) =>
  response.text().then(
    () => undefined,
    (error: Error) => error,
  );

test("S2: an answer of a node has the length of a model's answer", async () => {
  const chunk = "x".repeat(MIB);
  expect(await limited(answer(["{}"], JSON_TYPE), "/chat/completions").text()).toBe("{}");
  expect(await failure(limited(answer(times(5, chunk), JSON_TYPE), "/chat/completions"))).toMatchObject(tooLong);
  expect(await failure(limited(answer(times(5, chunk), JSON_TYPE), "/embeddings"))).toBeUndefined();
  expect(await failure(limited(answer(times(33, chunk), JSON_TYPE), "/embeddings"))).toMatchObject(tooLong);
});

test("S2: a stream of a node has no line without an end", async () => {
  const line = `data: {"a":"${"x".repeat(60_000)}"}\n\n`;
  expect(await failure(limited(answer(times(100, line), EVENTS), "/chat/completions"))).toBeUndefined();
  const endless = limited(answer(times(1_000, "x".repeat(60_000)), EVENTS), "/chat/completions");
  expect(await failure(endless)).toMatchObject(tooLong);
});
