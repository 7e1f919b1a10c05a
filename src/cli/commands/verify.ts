import { existsSync, readFileSync, statSync } from "node:fs";
import { verifyReport } from "../../lib/detection/signed_report.ts";
import { UsageError } from "../../lib/errors.ts";
import { MIB } from "../../lib/units.ts";
import { command, EXIT, JSON_FLAG } from "../args.ts";
import { note, print, printJson } from "../output.ts";

const MOST_BYTES = 32 * MIB;

export const verify = command({
  summary: "Verify the signature of a report of a detection",
  takes: ["FILE"],
  flags: {
    key: { type: "string", value: "KEY", doc: "The public key that must have signed it" },
    json: JSON_FLAG,
  },
  examples: ["verk verify report.html", "verk verify report.html --key mC9x…"],
  exits: { 1: "not valid" },
  run({ key, json }, file = "") {
    if (!existsSync(file)) throw new UsageError(`${file} does not exist`);
    if (statSync(file).size > MOST_BYTES) throw new UsageError(`${file} is larger than ${MOST_BYTES / MIB} MiB`);
    const found = verifyReport(readFileSync(file));
    if (!found) throw new UsageError(`${file} is no signed report: its last line has no signature`);
    const isTheirs = key === undefined || key === found.key;
    const valid = found.valid && isTheirs;
    if (json) printJson({ object: "report_verification", valid, key: found.key });
    else if (!found.valid) print("not valid: the report was changed after it was signed");
    else if (!isTheirs) print(`not valid: another key signed the report: ${found.key}`);
    else {
      print(`valid: signed with the key ${found.key}`);
      if (key === undefined) note("Give --key to check that it is the key of the server that you trust.");
    }
    return valid ? EXIT.ok : EXIT.failed;
  },
});
