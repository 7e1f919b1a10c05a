import { type Command, command, EXIT, type Group, JSON_FLAG, SERVER_FLAGS } from "../../args.ts";
import { connect } from "../../connect.ts";
import { INTERRUPTED, interruptible } from "../../interrupt.ts";
import { create } from "../../jobs/create.ts";
import { allJobs, type Job, mustFind, pathOf } from "../../jobs/find.ts";
import { watchJob } from "../../jobs/follow.ts";
import { logs } from "../../jobs/logs.ts";
import { model } from "../../jobs/model.ts";
import { headlineOf, lastLine, plainLine, shortNumber, stepOf } from "../../jobs/view.ts";
import { note, print, printJson, printTable } from "../../output.ts";

const FLAGS = { ...SERVER_FLAGS, json: JSON_FLAG } as const;
const NONE = { 1: "failed: there is no such job, or its state does not allow it" };

const list = command({
  summary: "List the training jobs, newest first",
  flags: {
    ...FLAGS,
    status: { type: "string", value: "STATUS", doc: "Only these, such as running" },
    method: { type: "string", value: "METHOD", doc: "Only these: grpo, sft, dpo or custom" },
  },
  examples: ["verk jobs list", "verk jobs list --status running --json"],
  async run({ json, status, method, ...where }) {
    const { client } = await connect(where);
    const found = await allJobs(client, { ...(status ? { status } : {}), ...(method ? { method } : {}) });
    if (json) printJson({ object: "list", data: found, has_more: false });
    else
      printTable(
        ["ID", "RESULT", "STATUS", "METHOD", "MODEL", "STEP", "HEADLINE", "CREATED"],
        found.map(rowOf),
        "No training jobs: start one with `verk jobs create --model MODEL --method grpo --dataset FILE --reward FILE`.",
      );
    return EXIT.ok;
  },
});

function rowOf(job: Job): string[] {
  const key = headlineOf(job.method);
  const value = job.latest_metrics[key];
  const headline = value === undefined ? "-" : `${key} ${shortNumber(value)}`;
  return [
    job.id,
    job.output_name,
    job.status,
    job.method,
    job.base_model ?? "-",
    stepOf(job),
    headline,
    job.created_at,
  ];
}

type Event = { created_at: string; level: string; type: string; message: string };

const get = command({
  summary: "Show a job and what happened to it",
  takes: ["job"],
  flags: FLAGS,
  examples: ["verk jobs get job_…", "verk jobs get sums --json"],
  exits: NONE,
  async run({ json, ...where }, target = "") {
    const { client } = await connect(where);
    const job = await mustFind(client, target);
    if (json) {
      printJson(job);
      return EXIT.ok;
    }
    print(job.completed_at === null ? `${job.id} ${plainLine({ job, points: [] })}` : lastLine({ job, points: [] }));
    const { body } = await client.call<{ data: Event[] }>("GET", pathOf(job.id, "/events?limit=20"));
    for (const { created_at, level, message } of body.data.toReversed())
      print(`${created_at}  ${level === "info" ? "" : `${level}: `}${message}`);
    return EXIT.ok;
  },
});

const watch = command({
  summary: "Watch a job to its end",
  takes: ["job"],
  flags: FLAGS,
  examples: ["verk jobs watch job_…", "verk jobs watch sums"],
  exits: { 0: "it was completed", 1: "it failed or was cancelled", [INTERRUPTED]: "interrupted: the job goes on" },
  async run({ json, ...where }, target = "") {
    const { client } = await connect(where);
    const job = await mustFind(client, target);
    return await interruptible(async (signal) => {
      const seen = await watchJob(client, job, signal);
      if (seen && json) printJson(seen.job);
      return !seen ? INTERRUPTED : seen.job.status === "completed" ? EXIT.ok : EXIT.failed;
    });
  },
});

/** One request that moves a job on, and the state it is in then. */
const moving = (action: "cancel" | "pause" | "resume", summary: string): Command =>
  command({
    summary,
    takes: ["job"],
    flags: FLAGS,
    examples: [`verk jobs ${action} job_…`],
    exits: NONE,
    async run({ json, ...where }, target = "") {
      const { client } = await connect(where);
      const { id } = await mustFind(client, target);
      const { body } = await client.call<Job>("POST", pathOf(id, `/${action}`));
      if (json) printJson(body);
      else note(`${body.output_name} (${body.id}) is ${body.status}.`);
      return EXIT.ok;
    },
  });

const remove = command({
  summary: "Delete a job that is over, with its metrics, logs and checkpoints",
  takes: ["job"],
  flags: FLAGS,
  examples: ["verk jobs delete job_…"],
  exits: NONE,
  async run({ json, ...where }, target = "") {
    const { client } = await connect(where);
    const { id, output_name } = await mustFind(client, target);
    const { body } = await client.call("DELETE", pathOf(id));
    if (json) printJson(body);
    else note(`${output_name} (${id}) is deleted.`);
    return EXIT.ok;
  },
});

export const jobs: Group = {
  summary: "Train models: start, watch and steer training jobs",
  subcommands: {
    create,
    list,
    get,
    watch,
    logs,
    cancel: moving("cancel", "End a job; its checkpoints stay"),
    pause: moving("pause", "Save a job and give its memory back"),
    resume: moving("resume", "Go on with a job that is paused"),
    delete: remove,
    model,
  },
};
