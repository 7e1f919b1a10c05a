import { UsageError } from "../../lib/errors.ts";
import { command } from "../args.ts";

export const demo = command({
  summary: "",
  flags: {},
  examples: [],
  run() {
    throw new UsageError("not built yet");
  },
});
