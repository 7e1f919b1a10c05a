import { expect, test } from "bun:test";
import { join } from "node:path";
import { createFrames, encodeFrame } from "../../lib/rewards/frames.ts";

/** Answers one request through non-blocking pipes, like those that a parent opens. */
const CHILD = `
import { NR, syscall } from ${JSON.stringify(join(import.meta.dir, "../../native/syscalls.ts"))};
import { receive, send } from ${JSON.stringify(join(import.meta.dir, "pipes.ts"))};
const [F_SETFL, O_NONBLOCK] = [4, 0o4000];
for (const fd of [0, 1]) syscall(NR.fcntl, fd, F_SETFL, O_NONBLOCK);
send({ ready: true });
send(receive());
`;

test("a message longer than the pipe waits for the reader, and a reader waits for a late message", async () => {
  const child = Bun.spawn([process.execPath, "-e", CHILD], { stdin: "pipe", stdout: "pipe", stderr: "inherit" });
  const message = { text: "x".repeat(4 << 20) };
  const frames = createFrames(8 << 20);
  const heard: unknown[] = [];
  for await (const chunk of child.stdout) {
    for (const frame of frames.push(chunk)) {
      heard.push(frame);
      if (heard.length > 1) continue;
      child.stdin.write(encodeFrame(message)); // only after it has begun to listen
      void child.stdin.end();
    }
  }
  expect(heard).toEqual([{ ready: true }, message]);
});
