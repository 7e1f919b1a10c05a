import { expect, test } from "bun:test";
import { forwardArgs, openChannel } from "./channel.ts";

test("paths of sockets are one field each of the option of ssh", () => {
  expect(forwardArgs({ local: "/data/a:b%c/s", remote: "/tmp/v/s" }).at(-1)).toBe("/data/a\\:b%%c/s:/tmp/v/s");
});

test("lines pass in both directions, and the last words say why the client has ended", async () => {
  let reached = 0;
  const script = 'read line; echo "got $line"; echo "no route" >&2; exit 255';
  const channel = openChannel(["sh", "-c", script], () => void reached++);
  channel.write("hello");
  expect(await Array.fromAsync(channel.lines)).toEqual(["got hello"]);
  expect(await channel.reason()).toBe("no route");
  expect(reached).toBeGreaterThan(0);
  channel.close();
});

test("a node that prints without end is cut off", async () => {
  const channel = openChannel(["sh", "-c", "yes | tr -d '\\n'"], () => {});
  expect(await Array.fromAsync(channel.lines)).toEqual([]);
});
