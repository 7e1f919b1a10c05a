import { existsSync } from "node:fs";
import { UsageError } from "../../../lib/errors.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import { previousOf, readJournal } from "../../../platform/updates/program.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT } from "../../args.ts";
import { note, print } from "../../output.ts";
import { SERVICE_FLAG, serviceOf } from "./service.ts";
import { explainDenied, goBack, isMigrated, PROGRAM_FLAG, programAt } from "./steps.ts";

const READY_MS = 120 * SECOND_MS;

export const rollback = command({
  summary: "Go back to the version before the last upgrade, with its database if the schema changed",
  flags: {
    yes: {
      type: "boolean",
      doc: "Agree to lose what was written since the upgrade, where the database must go back too",
    },
    program: PROGRAM_FLAG,
    service: SERVICE_FLAG,
    data: DATA_FLAG,
    config: CONFIG_FLAG,
  },
  examples: ["sudo verk rollback", "sudo verk rollback --yes"],
  async run({ yes, service: name, config, data, ...flags }) {
    const program = programAt(flags.program);
    const journal = await readJournal(program);
    if (!journal) throw new UsageError(`There is no upgrade of ${program} to go back from`);
    const service = serviceOf(name, { program, dataDir: journal.data_dir, config, data, timeoutMs: READY_MS });
    const isBack = !existsSync(previousOf(program)); // a rollback was killed after it swapped the programs
    if (isMigrated(journal) && !yes && !isBack)
      throw new UsageError(
        `Version ${journal.to} changed the schema of the database, so the database of ${journal.at} comes back. ` +
          "Everything that was written since then is lost. To agree, add --yes.",
      );
    await service.stop();
    let replaced: string | undefined;
    try {
      ({ replaced } = goBack(program, journal));
    } catch (error) {
      explainDenied(error);
    }
    if (replaced !== undefined) note(`The database of ${journal.to} is kept at ${replaced}.`);
    const fault = await service.start(journal.from);
    if (fault !== undefined) {
      note(`verk ${journal.from} is back, but it is not ready: ${fault}`);
      return EXIT.failed;
    }
    print(`verk ${journal.from} is back; before: ${journal.to}`);
    return EXIT.ok;
  },
});
