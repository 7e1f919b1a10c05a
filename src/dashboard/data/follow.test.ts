import { expect, test } from "bun:test";
import { encodeSse } from "../../lib/net/sse.ts";
import { type Message, sseParser } from "./follow.ts";

test("messages are the same however the stream is cut", () => {
  const data = { text: "a\n\nb <i>ü</i>" };
  const stream = [
    "retry: 3000\n\n",
    encodeSse({ comment: "heartbeat" }),
    encodeSse({ id: "evt_0" }),
    encodeSse({ id: "evt_1", event: "job.running", data }),
    encodeSse({ data: 1 }),
  ].join("");
  const wanted: Message[] = [
    { id: "evt_0", event: "message", data: "" },
    { id: "evt_1", event: "job.running", data: JSON.stringify(data) },
    { id: undefined, event: "message", data: "1" },
  ];
  for (const size of [1, 2, 7, stream.length]) {
    const seen: Message[] = [];
    const parse = sseParser((message) => seen.push(message));
    for (let i = 0; i < stream.length; i += size) parse(stream.slice(i, i + size));
    expect(seen).toEqual(wanted);
  }
});
