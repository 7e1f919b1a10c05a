import { buildFacts, COMMIT, VERSION } from "../../lib/version.ts";
import { command, EXIT, JSON_FLAG } from "../args.ts";
import { printResult } from "../output.ts";

export const version = command({
  summary: "Print the version",
  flags: { json: JSON_FLAG },
  examples: ["verk version --json"],
  run({ json }) {
    printResult(json, buildFacts(), { result: `verk ${VERSION} (${COMMIT})` });
    return EXIT.ok;
  },
});
