import { UsageError } from "../../../lib/errors.ts";
import type { Experiment } from "../../../resources/quality/experiments/schema.ts";
import { command, EXIT, type Group } from "../../args.ts";
import type { Client } from "../../client.ts";
import { connect } from "../../connect.ts";
import { show as showResults } from "../../eval/show.ts";
import { onlyOne, wholeId } from "../../lists.ts";
import { note, printJson } from "../../output.ts";
import { COMMON_FLAGS, itemsOf, listCommand, removeCommand } from "../../resource_commands.ts";

const PATH = "/v1/experiments";

const all = (client: Client) => itemsOf<Experiment>(client, PATH);

/** Finds an experiment by id, by the beginning of an id, or by its name if only one experiment has it. */
export async function mustFind(client: Client, target: string): Promise<Experiment> {
  if (target.startsWith("exp_")) {
    const id = await wholeId(target, () => all(client));
    return (await client.call<Experiment>("GET", `${PATH}/${encodeURIComponent(id)}`)).body;
  }
  const named = (await all(client)).filter(({ name }) => name === target);
  const found = onlyOne(named, "experiments", target);
  if (found) return found;
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
    const found = await mustFind(client, target);
    const { done, total } = found.progress;
    if (!json)
      note(`${found.name} is ${found.status}: ${done} of ${total} items.${found.error ? ` ${found.error}` : ""}`);
    await showResults(client, found, { json, regressions });
    return EXIT.ok;
  },
});

const cancel = command({
  summary: "Cancel an experiment; finished items stay",
  takes: ["experiment"],
  flags: COMMON_FLAGS,
  examples: ["verk experiments cancel exp_01k9"],
  exits: { 1: "failed: there is no such experiment, or it has ended" },
  async run({ json, ...where }, target = "") {
    const { client } = await connect(where);
    const { id } = await mustFind(client, target);
    const { body } = await client.call<Experiment>("POST", `${PATH}/${id}/cancel`);
    if (json) printJson(body);
    else note(`Experiment ${id} is ${body.status}.`);
    return EXIT.ok;
  },
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
