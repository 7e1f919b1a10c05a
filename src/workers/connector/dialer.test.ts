import { expect, test } from "bun:test";
import { createDialer } from "./dialer.ts";

const network = { allow_private: false, allow: [], ca_file: "" };
/** A name server that never answers. */
const lookup = () => new Promise<never>(() => {});

test("a name that does not resolve in time is unreachable", async () => {
  const dialer = createDialer(network, { connectMs: 50, lookup });
  const error = await dialer.resolve("db.example", new AbortController().signal).catch((caught: unknown) => caught);
  expect(error).toMatchObject({ code: "unreachable", message: expect.stringContaining("50 ms") });
});

test("a caller that stops does not wait for the name server", async () => {
  const stop = new AbortController();
  const resolving = createDialer(network, { connectMs: 60_000, lookup }).resolve("db.example", stop.signal);
  stop.abort(new Error("enough"));
  expect(await resolving.catch((caught: unknown) => caught)).toMatchObject({ message: "enough" });
});
