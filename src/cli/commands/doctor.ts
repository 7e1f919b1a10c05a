import { UsageError } from "../../lib/errors.ts";
import { command } from "../args.ts";

export const doctor = command({
  summary: "",
  flags: {},
  examples: [],
  run() {
    throw new UsageError("not built yet");
  },
});
