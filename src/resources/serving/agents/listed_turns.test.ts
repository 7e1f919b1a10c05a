import { afterEach, expect, test } from "bun:test";
import { manyApps } from "../../../../test/harness.ts";
import { insert } from "../../../../test/insert_row.ts";
import { LONGEST_TURN_MS, longestTurnMsOf } from "../../../../test/turns.ts";
import { newId } from "../../../lib/ids.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

test("the list of models lets others in while it passes agents whose deployment does not run", async () => {
  const app = open();
  const columns = { version: 1, tools: "[]", sampling: "{}", metadata: "{}" };
  for (let i = 0; i < 400; i++)
    insert(app, "agents", newId("agt", i), i, { ...columns, name: `a${i}`, deployment: `none${i}` });
  const list = () => app.call("GET", "/v1/models");
  expect((await list()).body.data).toEqual([]); // the first request compiles
  expect(await longestTurnMsOf(list)).toBeLessThan(LONGEST_TURN_MS);
});
