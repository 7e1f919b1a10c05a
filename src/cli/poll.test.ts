import { expect, test } from "bun:test";
import { ApiError } from "./client.ts";
import { pollUntil } from "./poll.ts";

const polling = (signal = new AbortController().signal) => ({ signal, everyMs: 1, outageMs: 3 });
const lost = () => new ApiError("Cannot reach the server", 0);

/** Answers with each value in turn, and throws those that are errors. */
function answering(...values: (number | Error)[]) {
  const left = [...values];
  return async () => {
    const value = left.shift();
    if (typeof value !== "number") throw value;
    return value;
  };
}

test("polling returns the first value that is over", async () => {
  expect(await pollUntil(answering(1, 2, 3, 4), (value) => value >= 3, polling())).toBe(3);
});

test("an outage is retried, and every answer starts its time anew", async () => {
  const probe = answering(lost(), lost(), lost(), 1, lost(), new ApiError("restarting", 503), lost(), 2);
  let outages = 0;
  const onOutage = () => void outages++;
  expect(await pollUntil(probe, (value) => value === 2, { ...polling(), onOutage })).toBe(2);
  expect(outages).toBe(6);
});

test("an outage that lasts too long, and any other error, is thrown", async () => {
  const long = answering(lost(), lost(), lost(), lost(), 1);
  await expect(pollUntil(long, () => true, polling())).rejects.toThrow("Cannot reach");
  await expect(pollUntil(answering(new ApiError("no such job", 404), 1), () => true, polling())).rejects.toThrow(
    "no such job",
  );
});

test("an abort ends it without a value and without an error", async () => {
  const stop = new AbortController();
  const probe = async () => {
    stop.abort();
    throw new Error("aborted");
  };
  expect(await pollUntil(probe, () => true, polling(stop.signal))).toBeUndefined();
});
