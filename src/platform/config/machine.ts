/** Settings of what runs on the processor and on GPUs: deployments, memory and child processes. */
import { z } from "zod";
import { KV_TYPES } from "../../lib/gguf/memory.ts";
import { live, milliseconds, section, setting } from "./section.ts";

export const serving = section("Deployments.", {
  threads: setting(
    0,
    "CPU threads of one replica; 0 = all cores that this server may use. A replica uses fewer while they are busy.",
    () => z.int().min(0).max(1024),
  ),
  parallel: setting(8, "Sequences that one replica decodes at once, unless the deployment sets it.", () =>
    z.int().min(1).max(256),
  ),
  context_length: setting(
    8192,
    "Tokens of context for each sequence, unless the deployment sets it; never more than the model has.",
    () => z.int().min(64),
  ),
  decoder: setting(
    "auto",
    "What decodes on an NVIDIA GPU: own = Verk's kernels, library = llama.cpp, auto = Verk's kernels where they can.",
    () => z.enum(["auto", "library", "own"]),
  ),
  batch_invariant: setting(
    "auto",
    "An answer has the same tokens and log-probabilities whatever is decoded beside it: on = at any cost, auto = where it costs little, off = no promise.",
    () => z.enum(["auto", "on", "off"]),
  ),
  repack: setting(
    "auto",
    "Keep a copy of quantized weights in BF16 on the GPU, which more than 96 sequences at once decode by: auto = where it takes at most a quarter of the free memory, off = never.",
    () => z.enum(["auto", "off"]),
  ),
  kv_type: setting(
    "f16",
    "Numbers of keys and values, unless the deployment sets it: f16, or q8_0, which takes half of the memory and changes log-probabilities a little.",
    () => z.enum(KV_TYPES),
  ),
  guesses: setting(
    true,
    "Guess the next tokens of a lone answer from its text: fewer steps, the same distribution.",
    () => z.boolean(),
  ),
  prefix_cache_bytes: live(
    setting(
      10_737_418_240,
      "Beginnings of prompts that replicas keep on the disk, of all workspaces: what was read once is not read again after a park or a restart; 0 = none.",
      () => z.int().min(0),
    ),
  ),
  standby: setting(
    true,
    "While a deployment is parked, keep one process (about 70 MB) ready for it: a wake is faster.",
    () => z.boolean(),
  ),
  standby_card: setting(
    false,
    "The process of serving.standby also holds a context on the parked deployment's GPU (about 550 MiB of its memory): a wake is faster by about 170 ms. It gives way to everything that needs the memory.",
    () => z.boolean(),
  ),
  health_interval_ms: setting(
    10_000,
    "A replica that showed no progress for this long is checked; one that streams answers needs no check.",
    milliseconds,
  ),
  health_timeout_ms: setting(
    20_000,
    "A replica is replaced after this time without progress. A decode call that is under way counts as progress (docs/serving.md).",
    milliseconds,
  ),
  restart_attempts: setting(3, "Restarts of a broken deployment before it has failed.", () => z.int().min(0).max(100)),
  restart_backoff_ms: setting(1000, "Pause before the first restart; doubles with each.", milliseconds),
  request_retention_days: live(
    setting(30, "Request records older than this are removed.", () => z.int().min(1).max(36_500)),
  ),
  retention_days: live(
    setting(365, "Deployments that were stopped or failed longer ago than this are removed.", () =>
      z.int().min(1).max(36_500),
    ),
  ),
});

export const gpu = section("Reservations of GPU memory, or of main memory on a machine without a GPU.", {
  reserve_mib: setting(512, "Memory of each device that is never reserved.", () => z.int().min(0)),
  cpu_share: setting(0.8, "The share of main memory that may be reserved on a machine without a GPU.", () =>
    z.number().min(0.05).max(1),
  ),
  cpu_devices: setting(
    1,
    "Devices that a machine without a GPU counts as. More than 1 is for trying out gpu_count.",
    () => z.int().min(1).max(64),
  ),
});

export const workers = section("Child processes.", {
  silence_ms: setting(30_000, "A worker that sends no message for this long is killed.", milliseconds),
  stop_grace_ms: setting(10_000, "Time between the request to stop and SIGKILL.", milliseconds),
  stderr_tail_bytes: setting(8192, "Bytes of a worker's last error output that are kept.", () =>
    z.int().min(256).max(1_048_576),
  ),
});
