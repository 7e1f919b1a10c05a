import { expect, test } from "bun:test";
import { placeIn } from "./scoring.ts";

test("the position of an error is read from the message of the sandbox", () => {
  expect(placeIn("The reward source cannot be run: line 3, column 5: invalid syntax")).toEqual({ line: 3, column: 5 });
  expect(placeIn("line 12: bad")).toEqual({ line: 12, column: null });
  expect(placeIn("The reward processes are busy")).toBeUndefined();
});
