/** Settings of what users have run here, and of what it costs. */
import { z } from "zod";
import { milliseconds, section } from "./config_section.ts";

export const sandbox = section("Where reward code runs.", {
  require: z
    .enum(["language", "process", "full"])
    .default("process")
    .describe(
      "Refuse to run below this: language (the interpreter's walls), process (and seccomp), full (and landlock, namespaces).",
    ),
  memory_mib: z.int().min(64).max(4096).default(512).describe("What one reward process may add to its own size."),
  processes: z.int().min(1).max(1024).default(8).describe("Reward processes at the same time; others wait."),
  spare_seconds: z
    .int()
    .min(0)
    .max(86_400)
    .default(120)
    .describe("After use, one process of the language stays ready for this long; 0 = none."),
  sample_timeout_ms: milliseconds.default(5_000).describe("For one sample, unless the reward function says otherwise."),
  batch_timeout_ms: milliseconds.default(120_000).describe("For one batch, whatever it holds."),
});

export const sessions = section("Session sandboxes.", {
  enabled: z.boolean().default(true).describe("false: every session operation answers sessions_disabled."),
  max_per_workspace: z.int().min(1).default(16).describe("Sessions of one workspace that have not ended."),
  idle_seconds: z.int().min(10).default(1800).describe("A session nobody used for this long expires."),
  lifetime_seconds: z.int().min(10).default(86_400).describe("Longest life of a session, and the default."),
  exec_timeout_seconds: z.int().min(1).default(3600).describe("Longest time of one command; the default is 300."),
  execs: z.int().min(1).max(256).default(8).describe("Commands at the same time in all sessions; others wait."),
  memory_mib: z.int().min(16).default(2048).describe("All processes of one command together."),
  processes: z.int().min(4).max(4096).default(128).describe("Processes and threads of one command."),
  disk_mib: z.int().min(1).default(4096).describe("What may lie in one /workspace."),
  disk_entries: z.int().min(10).default(200_000).describe("Files and directories in one /workspace."),
  output_bytes: z
    .int()
    .min(1024)
    .max(67_108_864)
    .default(1_048_576)
    .describe("Of each stream of a command; the rest is dropped."),
  allow_network: z
    .boolean()
    .default(false)
    .describe("Let a session ask for the network of this machine, loopback and private addresses included."),
});

export const training = section("Training jobs.", {
  parallel: z.int().min(1).max(64).default(1).describe("Jobs that run at the same time; others wait in the queue."),
  threads: z.int().min(0).max(1024).default(0).describe("Threads of one job on the CPU; 0 = all cores but one."),
  crash_limit: z
    .int()
    .min(1)
    .max(1000)
    .default(5)
    .describe("A job whose worker dies this often without progress in between has failed."),
  save_seconds: z
    .int()
    .min(0)
    .default(600)
    .describe("A checkpoint is written at the latest after this long, whatever save_steps says; 0 = never sooner."),
  max_runtime_minutes: z.int().min(1).default(10_080).describe("Longest run of one job, and the default."),
});

export const webhooks = section("Webhooks.", {
  max_per_workspace: z.int().min(1).max(10_000).default(100).describe("Endpoints of one workspace."),
  retention_days: z
    .int()
    .min(4)
    .max(36_500)
    .default(30)
    .describe("Deliveries made longer ago than this are removed once they have settled."),
});

export const billing = section("What things cost.", {
  initial_credit_usd: z.number().min(0).max(1e9).default(100).describe("Credit of a new workspace, in dollars."),
  local_rate_usd_per_hour: z
    .number()
    .min(0)
    .max(1e6)
    .default(0)
    .describe("What an hour of one device of this machine costs a job, in dollars; 0 = free."),
});
