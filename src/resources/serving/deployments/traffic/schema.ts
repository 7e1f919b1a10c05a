import { z } from "zod";
import { DateTime, later, numberText } from "../../../../lib/schema.ts";
import { isoTime } from "../../../../lib/time.ts";
import { STAGES } from "../../../../workers/protocol.ts";
import { LOG_LEVELS, type LogRow } from "../table.ts";

const MOST_HOURS = 90 * 24;

export const TrafficQuery = z.object({
  hours: numberText(z.int().min(1).max(MOST_HOURS))
    .default(1)
    .describe("How far back. Slots are longer in a longer period: a minute in an hour, an hour in a week"),
});

const percentiles = (what: string) =>
  z
    .object({ p50: z.number(), p95: z.number(), p99: z.number() })
    .nullable()
    .describe(`${what}, in milliseconds, at most 2.2 % off; null without such a request`);

const Point = later(() =>
  z.object({
    time: DateTime.describe("The beginning of the slot"),
    seconds: z.number().describe("Its length; the last slot is not over"),
    requests: z.int().describe("Requests that ended in it"),
    failed_requests: z.int().describe("Answered with a status of 400 or more; clients that left do not count"),
    prompt_tokens: z.int(),
    cached_tokens: z.int().describe("Tokens of prompts that were in the cache and were not read again"),
    completion_tokens: z.int(),
    answer_ms: percentiles("Time of requests that succeeded, from arrival to the last byte, waking included"),
    first_token_ms: percentiles("Time from arrival to the first token"),
    avg_wait_ms: z.number().nullable().describe("Mean time for which a request waited for a replica"),
    most_open: z.int().describe("The most requests at once"),
    most_waiting: z.int().describe("The most requests that waited for a replica at once"),
  }),
);
export type TrafficPoint = z.infer<typeof Point>;

export const DeploymentTraffic = later(() =>
  z
    .object({
      object: z.literal("deployment_traffic"),
      deployment_id: z.string(),
      hours: z.int(),
      step_seconds: z.int(),
      total: Point.unwrap().describe("All slots together"),
      data: z.array(Point.unwrap()).describe("Oldest first, without gaps"),
    })
    .meta({ id: "DeploymentTraffic" }),
);
export type DeploymentTraffic = z.infer<typeof DeploymentTraffic>;

export const DeploymentLive = later(() =>
  z
    .object({
      object: z.literal("deployment_live"),
      deployment_id: z.string(),
      open_requests: z.int().describe("Requests that wait or are being answered"),
      waiting_requests: z.int().describe("Requests that wait for a replica"),
      replicas: z.array(
        z.object({
          id: z.string(),
          state: z.enum(["starting", "ready", "leaving"]),
          stage: z.enum(STAGES),
          progress: z.number().min(0).max(1),
          open_requests: z.int(),
          sequences: z.int().describe("Requests that it answers at once; further ones wait in it"),
          devices: z.array(z.string()).describe("Ids of its GPUs; empty: main memory"),
          model_bytes: z
            .int()
            .describe("Memory of the model and its context, measured once it is loaded and estimated before"),
          adapter_bytes: z.int().describe("Memory of its own adapter"),
          shared_with: z.int().describe("Other deployments that use the same copy of the model"),
        }),
      ),
      prefix_cache: z
        .object({
          bytes: z.int().describe("Blocks of prompts of the workspace, of all its deployments"),
          limit_bytes: z.int().describe("0: no prompts are kept on the disk"),
          read_tokens: z.int().describe("Tokens that the replicas above have read from blocks instead of prompts"),
        })
        .describe("Beginnings of prompts on the disk"),
      adapters: z
        .array(
          z.object({
            model_id: z.string(),
            name: z.string(),
            base_model: z.string().nullable(),
            bytes: z.int(),
            loaded_in: z.int().describe("Replicas that have it loaded now"),
            open_requests: z.int().describe("Requests that use it now"),
            last_used_at: DateTime.nullable().describe("Null: not since it was loaded; also if it is not loaded"),
          }),
        )
        .describe("Adapters that requests can choose, at most 100; loaded ones first"),
    })
    .meta({ id: "DeploymentLive" }),
);
export type DeploymentLive = z.infer<typeof DeploymentLive>;

export const LogQuery = z.object({
  limit: numberText(z.int().min(1).max(1_000)).default(200).describe("How many lines at most"),
  q: z.string().max(200).optional().describe("Only lines with this text, in any case of letters"),
  level: z.enum(LOG_LEVELS).optional().describe("Only lines of this level or worse"),
});
export type LogQuery = z.infer<typeof LogQuery>;

const LogLine = later(() =>
  z.object({
    seq: z.int(),
    time: DateTime,
    level: z.enum(LOG_LEVELS),
    text: z.string(),
  }),
);
export const DeploymentLog = later(() =>
  z
    .object({
      object: z.literal("deployment_log"),
      deployment_id: z.string(),
      data: z.array(LogLine.unwrap()).describe("Newest first"),
      has_more: z.boolean(),
    })
    .meta({ id: "DeploymentLog" }),
);
export type DeploymentLog = z.infer<typeof DeploymentLog>;

export const presentLine = ({ seq, at, level, text }: LogRow): z.infer<typeof LogLine> => ({
  seq,
  time: isoTime(at),
  level,
  text,
});
