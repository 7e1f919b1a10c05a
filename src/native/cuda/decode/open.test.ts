import { expect, test } from "bun:test";
import { openDecodeDevice } from "./open.ts";

test("without a GPU, or on several, our kernels do not decode", () => {
  expect(openDecodeDevice("/nowhere", [])).toBe("there is no GPU");
  expect(openDecodeDevice("/nowhere", [0, 1])).toBe("the model is spread over several GPUs");
});
