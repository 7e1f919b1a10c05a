import { expect, test } from "bun:test";
import { connect } from "node:net";
import { join } from "node:path";
import { tempDir, until } from "../../../../test/harness.ts";
import type { FromServing } from "../../../workers/protocol.ts";
import { kept, openControl } from "./control.ts";

const attached = (name: string): FromServing => ({ type: "attached", name });
const loading = (progress: number): FromServing => ({ type: "loading", stage: "loading", progress });

test("a server that connects later hears what still counts, and the newest progress alone", () => {
  const messages = [loading(0.1), attached("a"), loading(0.5), loading(0.9)];
  const entries = messages.map((message, i) => ({ n: i + 1, message }));
  expect(kept(entries).map(({ n }) => n)).toEqual([2, 4]);
});

function client(path: string) {
  const socket = connect(path);
  const lines: unknown[] = [];
  let rest = "";
  socket.on("error", () => {});
  socket.on("data", (chunk) => {
    const parts = (rest + chunk).split("\n");
    rest = parts.pop() ?? "";
    lines.push(...parts.map((line) => JSON.parse(line)));
  });
  return { lines, send: (line: object) => void socket.write(`${JSON.stringify(line)}\n`), socket };
}

test("after a lost link nothing is heard twice and nothing is missing, in both directions", async () => {
  const path = join(tempDir(), "control");
  const heard: unknown[] = [];
  const control = openControl(path, (message) => void heard.push(message));
  control.add(attached("a"));
  const first = client(path);
  first.send({ client: "one", from: 0 });
  first.send({ n: 1, send: "x" });
  await until("the first message", () => heard.length === 1 || undefined);
  await until("its answer", () => first.lines.length === 2 || undefined);
  expect(first.lines).toEqual([{ hello: true }, { n: 1, message: attached("a") }]);
  const second = client(path); // the same server, before the old link is known to be cut
  second.send({ client: "one", from: 1 });
  second.send({ n: 1, send: "x" });
  second.send({ n: 2, send: "y" });
  await until("the second message", () => heard.length === 2 || undefined);
  control.add(attached("b"));
  await until("news", () => second.lines.length === 2 || undefined);
  expect([heard, second.lines]).toEqual([
    ["x", "y"],
    [{ hello: true }, { n: 2, message: attached("b") }],
  ]);
  const other = client(path); // a server that was started anew counts from one
  other.send({ client: "two", from: 0 });
  other.send({ n: 1, send: "z" });
  await until("the third message", () => heard.length === 3 || undefined);
  await until("all news", () => other.lines.length === 3 || undefined);
  await control.end({ kind: "stopped", message: "m", tail: "" });
  await until("the end", () => other.lines.length === 4 || undefined);
  expect(other.lines.at(-1)).toEqual({ exit: { kind: "stopped", message: "m", tail: "" } });
});
