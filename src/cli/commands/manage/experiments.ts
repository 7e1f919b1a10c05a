import { UsageError } from "../../../lib/errors.ts";
import type { Experiment } from "../../../resources/quality/experiments/schema.ts";
import { command, EXIT, type Group } from "../../args.ts";
import type { Client } from "../../client.ts";
import { connect } from "../../connect.ts";
import { show as showResults } from "../../eval/show.ts";
import { onlyOne, wholeId } from "../../lists.ts";
import { note } from "../../output.ts";
import { actionCommand, COMMON_FLAGS, itemsOf, listCommand, removeCommand } from "../../resource_commands.ts";

const PATH = "/v1/experiments";

const all = (client: Client) => itemsOf<Experiment>(client, PATH);

/** Finds an experiment by id, by the beginning of an id, or by its name if only one experiment has it. */
export async function mustFind(client: Client, target: string): Promise<Experiment> {
  if (target.startsWith("exp_")) {
    const id = await wholeId(target, () => all(client));
    return (await client.call<Experiment>("GET", `${PATH}/${encodeURIComponent(id)}`)).body;
  }
  const named = (await all(client)).filter(({ name }) => name === target);
  const experiment = onlyOne(named, "experiments", target);
  if (experiment) return experiment;
  throw new UsageError(
    `There is no experiment ${JSON.stringify(target)}. \`verk experiments list\` shows them; \`verk eval\` creates one.`,
    EXIT.failed,
  );
}

const list = listCommand({
  summary: "List the experiments, newest first",
  examples: ["verk experiments list"],
  path: PATH,
  columns: {
    ID: ({ id }: Experiment) => id,
    NAME: ({ name }) => name,
    STATUS: ({ status }) => status,
    ITEMS: ({ progress }) => `${progress.done} of ${progress.total}`,
    ERRORS: ({ progress }) => String(progress.failed),
    CREATED: ({ created_at }) => created_at,
  },
  empty: "No experiments. Create one with `verk eval MODEL… --dataset FILE --evaluator FILE`.",
  hasShortIds: true,
});

const show = command({
  summary: "Show the results of an experiment, also while it runs",
  takes: ["experiment"],
  flags: {
    ...COMMON_FLAGS,
    regressions: { type: "boolean", doc: "List every row on which a target is worse than the baseline" },
  },
  examples: ["verk experiments show exp_01k9 --regressions"],
  exits: { 1: "failed: there is no such experiment" },
  async run({ json, regressions, ...where }, target = "") {
    const { client } = await connect(where);
    const experiment = await mustFind(client, target);
    const { name, status, error, progress } = experiment;
    if (!json) note(`${name} is ${status}: ${progress.done} of ${progress.total} items.${error ? ` ${error}` : ""}`);
    await showResults(client, experiment, { json, regressions });
    return EXIT.ok;
  },
});

const cancel = actionCommand({
  summary: "Cancel an experiment; finished items stay",
  examples: ["verk experiments cancel exp_01k9"],
  exits: { 1: "failed: there is no such experiment, or it has ended" },
  takes: "experiment",
  path: PATH,
  find: mustFind,
  action: "cancel",
  says: ({ status }: Experiment, { id }) => `Experiment ${id} is ${status}.`,
});

const remove = removeCommand({
  summary: "Delete an experiment that has ended, with its items",
  examples: ["verk experiments delete exp_01k9"],
  exits: { 1: "failed: there is no such experiment, or it still runs" },
  takes: "experiment",
  path: PATH,
  find: mustFind,
  says: ({ id }) => `Experiment ${id} is deleted.`,
});

export const experiments: Group = {
  summary: "Manage the experiments of a running server",
  subcommands: { list, show, cancel, delete: remove },
};
