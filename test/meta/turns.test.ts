/** Long work of the server gives its turn back in one way: `takingTurns` and `nextTurn` of src/lib/turns.ts. */
import { expect, test } from "bun:test";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");

/** Files that put something off for another reason than to let others in. */
const OTHERS: Record<string, string> = {
  "src/http/limits/fair_turns.ts": "gives the next turn to the workspace that has used the least",
  "src/lib/turns.ts": "is the one way",
  "src/platform/db/db.ts": "closes a commit at the end of the turn",
  "src/platform/network/answer_body.ts": "waits for what came together with the headers",
  "src/resources/data/datasets/stream/append.ts": "writes the batches of one turn together",
  "src/resources/training/training_jobs/running/reconcile.ts": "waits for a start that needs no time",
  "src/resources/watching/webhooks/delivery/record.ts": "writes the results of one turn together",
};

test("no file of the server yields in a way of its own", async () => {
  const own: string[] = [];
  for (const path of new Bun.Glob("src/{lib,platform,events,http,sandbox,resources}/**/*.ts").scanSync(ROOT)) {
    if (path.endsWith(".test.ts")) continue;
    const text = await Bun.file(join(ROOT, path)).text();
    if (/\bsetImmediate\b|\bsetTimeout\([^()]*, ?0\)|\bsleep\(0\)/.test(text)) own.push(path);
  }
  expect(own.sort()).toEqual(Object.keys(OTHERS).sort());
});
