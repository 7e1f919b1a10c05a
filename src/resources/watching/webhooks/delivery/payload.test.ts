import { expect, test } from "bun:test";
import { openRandom } from "../../../../lib/random.ts";
import { bodyOf, type RecordedEvent } from "./enqueue.ts";

const event: RecordedEvent = {
  id: "evt_01jz",
  type: "job.completed",
  createdAtMs: 1_700_000_000_123,
  data: { object: "job", id: "job_1", status: "completed", model: null },
};
const text = (of: RecordedEvent) => new TextDecoder().decode(bodyOf(of));

test("a body is the event's id, type, time and data, in this order and without spaces", () => {
  expect(text(event)).toBe(
    '{"id":"evt_01jz","type":"job.completed","created_at":"2023-11-14T22:13:20.123Z","data":{"object":"job","id":"job_1","status":"completed","model":null}}',
  );
});

test("a body is the same bytes from a row that was written and read again, whatever stands in it", () => {
  const random = openRandom(7);
  const word = () => String.fromCharCode(...Array.from({ length: 4 }, () => Math.floor(random() * 65_536)));
  const value = (depth: number): unknown => {
    const pick = Math.floor(random() * (depth > 0 ? 8 : 5));
    if (pick > 5) return Array.from({ length: 3 }, () => value(depth - 1));
    if (pick > 4)
      return Object.fromEntries(["10", "2", "__proto__", word(), word()].map((key) => [key, value(depth - 1)]));
    return [null, word(), random() * 10 ** Math.floor(random() * 60 - 30), -0, random() < 0.5][pick];
  };
  for (let i = 0; i < 1000; i++) {
    const one = { ...event, data: { id: "x", [word()]: value(3), 7: value(2) } };
    let again = one;
    for (let times = 0; times < 3; times++) {
      again = { ...event, data: JSON.parse(JSON.stringify(again.data)) };
      expect(text(again)).toBe(text(one));
    }
    expect(Buffer.from(Buffer.from(bodyOf(one)).toString()).equals(bodyOf(one))).toBe(true); // well-formed UTF-8
  }
});

test("what is no event has no body", () => {
  expect(() => bodyOf({ ...event, id: "job_1" })).toThrow("evt_");
  expect(() => bodyOf({ ...event, createdAtMs: Number.NaN })).toThrow("millisecond");
  for (const data of [null, [], "x"]) expect(() => bodyOf({ ...event, data: data as never })).toThrow("not an object");
});
