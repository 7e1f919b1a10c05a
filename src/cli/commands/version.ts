import { buildFacts, COMMIT, VERSION } from "../../lib/version.ts";
import { command, EXIT, JSON_FLAG } from "../args.ts";
import { print, printJson } from "../output.ts";

export const version = command({
  summary: "Print the version",
  flags: { json: JSON_FLAG },
  examples: ["verk version --json"],
  run({ json }) {
    if (json) printJson(buildFacts());
    else print(`verk ${VERSION} (${COMMIT})`);
    return EXIT.ok;
  },
});
