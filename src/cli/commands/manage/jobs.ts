import { formatBytes } from "../../../lib/bytes.ts";
import { METHODS } from "../../../lib/training/fields.ts";
import { JOB_STATUSES } from "../../../lib/training/job_status.ts";
import { command, EXIT, type Group } from "../../args.ts";
import { connect } from "../../connect.ts";
import { INTERRUPTED, interruptible } from "../../interrupt.ts";
import { compare } from "../../jobs/compare.ts";
import { create } from "../../jobs/create.ts";
import { edit } from "../../jobs/edit.ts";
import { type Job, mustFind, pathOf } from "../../jobs/find.ts";
import { watchJob } from "../../jobs/follow.ts";
import { get } from "../../jobs/get.ts";
import { logs } from "../../jobs/logs.ts";
import { metrics } from "../../jobs/metrics.ts";
import { model } from "../../jobs/model.ts";
import { samples } from "../../jobs/samples.ts";
import { headlineOf, shortNumber, stepOf } from "../../jobs/view.ts";
import { printJson } from "../../output.ts";
import { actionCommand, COMMON_FLAGS, listCommand, removeCommand } from "../../resource_commands.ts";

const NONE = { 1: "failed: there is no such job, or its status does not allow it" };

const list = listCommand({
  summary: "List the training jobs, newest first",
  examples: ["verk jobs list", "verk jobs list --status running --json"],
  path: "/v1/training_jobs",
  flags: {
    status: {
      type: "string",
      value: "STATUS",
      choices: JOB_STATUSES,
      doc: "Only jobs with this status, such as running",
    },
    method: {
      type: "string",
      value: "METHOD",
      choices: [...METHODS, "custom"],
      doc: "Only jobs with this method: grpo, rloo, distill, sft, dpo, kto, orpo or custom",
    },
    tag: { type: "string", value: "TAG", doc: "Only jobs with this tag" },
    group: { type: "string", value: "GROUP", doc: "Only jobs of this group" },
  },
  query: ({ status, method, tag, group }) => ({ status, method, tag, group }),
  columns: {
    ID: ({ id }: Job) => id,
    RESULT: ({ output_name }) => output_name,
    STATUS: ({ status }) => status,
    METHOD: ({ method }) => method,
    MODEL: ({ base_model }) => base_model,
    STEP: stepOf,
    HEADLINE: headlineText,
    CREATED: ({ created_at }) => created_at,
  },
  empty:
    "No training jobs. Start one with `verk jobs create --model MODEL --method grpo --dataset FILE --reward FILE`.",
  hasShortIds: true,
});

function headlineText({ method, latest_metrics }: Job): string {
  const key = headlineOf(method);
  const value = latest_metrics[key];
  return value === undefined ? "-" : `${key} ${shortNumber(value)}`;
}

type Checkpoint = {
  id: string;
  step: number;
  size_bytes: number;
  is_best: boolean;
  score: number | null;
  ranked_by: string | null;
  created_at: string;
};

const checkpoints = listCommand({
  summary: "List the checkpoints of a job, newest first",
  examples: ["verk jobs checkpoints sums"],
  exits: NONE,
  takes: "job",
  path: async (client, target) => pathOf((await mustFind(client, target)).id, "/checkpoints"),
  columns: {
    ID: ({ id }: Checkpoint) => id,
    STEP: ({ step }) => String(step),
    BEST: ({ is_best }) => (is_best ? "best" : ""),
    SCORE: ({ score }) => (score === null ? "-" : shortNumber(score)),
    SIZE: ({ size_bytes }) => formatBytes(size_bytes),
    CREATED: ({ created_at }) => created_at,
    "SCORE IS": ({ ranked_by }) => ranked_by ?? "-",
  },
  empty: "No checkpoints. --save-steps sets how often a job makes one.",
});

const watch = command({
  summary: "Watch a job until it ends",
  takes: ["job"],
  flags: COMMON_FLAGS,
  examples: ["verk jobs watch job_…", "verk jobs watch sums"],
  exits: {
    0: "the job completed",
    1: "the job failed or was cancelled",
    [INTERRUPTED]: "interrupted: the job continues",
  },
  async run({ json, ...where }, target = "") {
    const { client } = await connect(where);
    const job = await mustFind(client, target);
    return await interruptible(async (signal) => {
      const last = await watchJob(client, job, signal);
      if (last && json) printJson(last.job);
      return !last ? INTERRUPTED : last.job.status === "completed" ? EXIT.ok : EXIT.failed;
    });
  },
});

/** A command that changes the status of a job and prints the new one. */
const transition = (action: "cancel" | "pause" | "resume", summary: string) =>
  actionCommand({
    summary,
    examples: [`verk jobs ${action} job_…`],
    exits: NONE,
    takes: "job",
    path: "/v1/training_jobs",
    find: mustFind,
    action,
    says: ({ id, output_name, status }: Job) => `${output_name} (${id}) is ${status}.`,
  });

const remove = removeCommand({
  summary: "Delete a job that has ended, with its metrics, logs and checkpoints",
  examples: ["verk jobs delete job_…"],
  exits: NONE,
  takes: "job",
  path: "/v1/training_jobs",
  find: mustFind,
  says: ({ id, output_name }) => `${output_name} (${id}) is deleted.`,
});

export const jobs: Group = {
  summary: "Train models: start, watch and control training jobs",
  subcommands: {
    create,
    list,
    get,
    watch,
    metrics,
    samples,
    checkpoints,
    compare,
    edit,
    logs,
    cancel: transition("cancel", "Cancel a job; its checkpoints stay"),
    pause: transition("pause", "Pause a job: save a checkpoint and free its memory"),
    resume: transition("resume", "Resume a paused job"),
    delete: remove,
    model,
  },
};
