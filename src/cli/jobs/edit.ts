import { UsageError } from "../../lib/errors.ts";
import { command, EXIT } from "../args.ts";
import { connect } from "../connect.ts";
import { print, printJson } from "../output.ts";
import { COMMON_FLAGS } from "../resource_commands.ts";
import { type Job, mustFind, pathOf } from "./find.ts";

export const edit = command({
  summary: "Change the tags, the notes or the group of a job",
  takes: ["job"],
  flags: {
    tag: { type: "string", value: "TAG", multiple: true, doc: "Tag; repeatable. The given tags replace all" },
    "no-tags": { type: "boolean", doc: "Remove all tags" },
    notes: { type: "string", value: "TEXT", mayBeEmpty: true, doc: "Notes of your own; an empty text removes them" },
    group: { type: "string", value: "GROUP", mayBeEmpty: true, doc: "Group of the job; an empty text removes it" },
    ...COMMON_FLAGS,
  },
  fields: { tags: "--tag" },
  examples: ["verk jobs edit sums --tag baseline --group first", "verk jobs edit sums --notes 'too many steps'"],
  exits: { 1: "failed: there is no such job" },
  async run({ json, tag, "no-tags": noTags, notes, group, ...where }, target = "") {
    if (tag.length > 0 && noTags) throw new UsageError("jobs edit: give --tag or --no-tags, not both");
    const body = {
      ...(tag.length > 0 || noTags ? { tags: tag } : {}),
      ...(notes === undefined ? {} : { notes }),
      ...(group === undefined ? {} : { group: group === "" ? null : group }),
    };
    if (Object.keys(body).length === 0) throw new UsageError("jobs edit: give --tag, --no-tags, --notes or --group");
    const { client } = await connect(where);
    const { id } = await mustFind(client, target);
    const { body: job } = await client.call<Job>("PATCH", pathOf(id), body);
    if (json) printJson(job);
    else print(`${job.output_name} (${job.id}) is changed.`);
    return EXIT.ok;
  },
});
