/** Settings of what runs on the processor and on GPUs: deployments, memory and child processes. */
import { z } from "zod";
import { milliseconds, section } from "./section.ts";

export const serving = section("Deployments.", {
  threads: z
    .int()
    .min(0)
    .max(1024)
    .default(0)
    .describe(
      "CPU threads of one replica; 0 = all cores that this server may use. A replica uses fewer while they are busy.",
    ),
  parallel: z
    .int()
    .min(1)
    .max(256)
    .default(8)
    .describe("Sequences that one replica decodes at once, unless the deployment sets it."),
  context_length: z
    .int()
    .min(64)
    .default(8192)
    .describe("Tokens of context for each sequence, unless the deployment sets it; never more than the model has."),
  decoder: z
    .enum(["auto", "library", "own"])
    .default("auto")
    .describe(
      "What decodes on an NVIDIA GPU: own = Verk's kernels, library = llama.cpp, auto = Verk's kernels where they can.",
    ),
  guesses: z
    .boolean()
    .default(true)
    .describe("Guess the next tokens of a lone answer from its text: fewer steps, the same distribution."),
  standby: z
    .boolean()
    .default(true)
    .describe("While a deployment is parked, keep one process (about 70 MB) ready for it: a wake is faster."),
  standby_card: z
    .boolean()
    .default(false)
    .describe(
      "The process of serving.standby also holds a context on the parked deployment's GPU (about 550 MiB of its memory): a wake is faster by about 170 ms. It gives way to everything that needs the memory.",
    ),
  health_interval_ms: milliseconds
    .default(10_000)
    .describe("A replica that showed no progress for this long is checked; one that streams answers needs no check."),
  health_timeout_ms: milliseconds
    .default(20_000)
    .describe(
      "A replica is replaced after this time without progress. A decode call that is under way counts as progress (docs/serving.md).",
    ),
  restart_attempts: z
    .int()
    .min(0)
    .max(100)
    .default(3)
    .describe("Restarts of a broken deployment before it has failed."),
  restart_backoff_ms: milliseconds.default(1000).describe("Pause before the first restart; doubles with each."),
  request_retention_days: z
    .int()
    .min(1)
    .max(36_500)
    .default(30)
    .describe("Request records older than this are removed."),
  retention_days: z
    .int()
    .min(1)
    .max(36_500)
    .default(365)
    .describe("Deployments that were stopped or failed longer ago than this are removed."),
});

export const gpu = section("Reservations of GPU memory, or of main memory on a machine without a GPU.", {
  reserve_mib: z.int().min(0).default(512).describe("Memory of each device that is never reserved."),
  cpu_share: z
    .number()
    .min(0.05)
    .max(1)
    .default(0.8)
    .describe("The share of main memory that may be reserved on a machine without a GPU."),
  cpu_devices: z
    .int()
    .min(1)
    .max(64)
    .default(1)
    .describe("Devices that a machine without a GPU counts as. More than 1 is for trying out gpu_count."),
});

export const workers = section("Child processes.", {
  silence_ms: milliseconds.default(30_000).describe("A worker that sends no message for this long is killed."),
  stop_grace_ms: milliseconds.default(10_000).describe("Time between the request to stop and SIGKILL."),
  stderr_tail_bytes: z
    .int()
    .min(256)
    .max(1_048_576)
    .default(8192)
    .describe("Bytes of a worker's last error output that are kept."),
});
