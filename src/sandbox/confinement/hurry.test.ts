import { expect, test } from "bun:test";
import { getPriority } from "node:os";
import { until } from "../../../test/harness.ts";
import { isRoot } from "../../../test/sandbox/nobody.ts";
import { hurryEnd } from "./hurry.ts";

test.skipIf(!isRoot)("a group that ends gets the priority of the server", async () => {
  const child = Bun.spawn(["nice", "-n", "10", "sh", "-c", "sleep 600 & wait"], { detached: true });
  const inside = await until("its child", async () => {
    const text = await Bun.file(`/proc/${child.pid}/task/${child.pid}/children`).text();
    return text.trim() === "" || getPriority(child.pid) !== getPriority() + 10 ? undefined : Number(text);
  });
  hurryEnd(child.pid);
  expect([child.pid, inside].map(getPriority)).toEqual([getPriority(), getPriority()]);
  process.kill(-child.pid, "SIGKILL");
  await child.exited;
});
