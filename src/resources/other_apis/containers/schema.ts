/** /v1/containers in the format of OpenAI. A container is a session, and has its id. */
import { z } from "zod";
import { PageQuery } from "../../../http/answer/pagination.ts";
import { Label, later } from "../../../lib/schema.ts";
import type { Session } from "../../machines/sessions/schema.ts";
import type { FoundFile } from "../../machines/sessions/workspace/files.ts";
import { seconds } from "../files/schema.ts";

const MOST_FILES = 100;
const MOST_MINUTES = 7 * 24 * 60;
const MINUTE_SECONDS = 60;

const ExpiresAfter = () => z.object({ anchor: z.literal("last_active_at"), minutes: z.int().min(1).max(MOST_MINUTES) });

export const CreateContainer = later(() =>
  z
    .object({
      name: Label(200),
      expires_after: ExpiresAfter().optional().describe("Default: sessions.idle_seconds"),
      file_ids: z.array(z.string()).max(MOST_FILES).default([]).describe("Files that are copied into /workspace"),
      memory_limit: z.enum(["1g", "4g", "16g", "64g"]).optional().describe("Has no effect: sessions.memory_mib counts"),
      network_policy: z
        .object({
          type: z.literal("disabled", {
            error: "must be disabled: POST /v1/sessions makes a session with network, where the operator allows it",
          }),
        })
        .optional(),
      skills: z.array(z.unknown()).max(0, "are not supported: send their files as file_ids").optional(),
    })
    .meta({ id: "CreateContainer" }),
);
export type CreateContainer = z.output<typeof CreateContainer>;

export const ContainersQuery = later(() =>
  PageQuery.extend({
    name: z.string().max(200).optional().describe("Only containers with this name"),
    order: z.literal("desc").optional().describe("The newest container comes first"),
  }),
);
export type ContainersQuery = z.output<typeof ContainersQuery>;

export const ContainerFilesQuery = later(() =>
  PageQuery.extend({ order: z.enum(["asc", "desc"]).default("desc").describe("By the time of the last change") }),
);
export type ContainerFilesQuery = z.output<typeof ContainerFilesQuery>;

export const ContainerFileId = later(() =>
  z
    .object({ file_id: z.string().optional().describe("A file that was uploaded before") })
    .meta({ id: "CreateContainerFile" }),
);

const Seconds = z.int().describe("Unix seconds");

export const Container = later(() =>
  z
    .object({
      id: z.string().describe("That of the session: POST /v1/sessions/{id}/exec runs a command in it"),
      object: z.literal("container"),
      created_at: Seconds,
      name: z.string(),
      status: z.enum(["creating", "running", "expired", "failed"]),
      expires_after: ExpiresAfter(),
      last_active_at: Seconds,
      network_policy: z
        .object({ type: z.literal("disabled") })
        .optional()
        .describe("Absent: the session has network"),
    })
    .meta({ id: "Container" }),
);

export const ContainerFile = later(() =>
  z
    .object({
      id: z.string().describe("Made of the path: a file that a command writes there has the same id"),
      object: z.literal("container.file"),
      container_id: z.string(),
      created_at: Seconds.describe("Unix seconds of the last change"),
      bytes: z.int(),
      path: z.string(),
      source: z.literal("user"),
    })
    .meta({ id: "ContainerFile" }),
);

export const deletedAs = (object: "container.deleted" | "container.file.deleted", id: string) =>
  later(() => z.object({ id: z.string(), object: z.literal(object), deleted: z.literal(true) }).meta({ id }));

const STATUS = { creating: "creating", ready: "running", stopping: "expired", stopped: "expired" } as const;

export const toContainer = (session: Session) => ({
  id: session.id,
  object: "container" as const,
  created_at: seconds(Date.parse(session.created_at)),
  name: session.name ?? "",
  status: session.status === "failed" || session.status === "expired" ? session.status : STATUS[session.status],
  expires_after: {
    anchor: "last_active_at" as const,
    minutes: Math.max(1, Math.round(session.idle_timeout_seconds / MINUTE_SECONDS)),
  },
  last_active_at: seconds(Date.parse(session.last_used_at)),
  ...(session.network ? {} : { network_policy: { type: "disabled" as const } }),
});

const PREFIX = "cfile_";
const TOP = "/workspace/";

export const toFile = (container: string, { path, bytes, changedAt }: FoundFile) => ({
  id: `${PREFIX}${Buffer.from(path.slice(TOP.length)).toString("base64url")}`,
  object: "container.file" as const,
  container_id: container,
  created_at: seconds(changedAt),
  bytes,
  path,
  source: "user" as const,
});

/** Undefined: no id of a file. */
export function pathOfFile(id: string): string | undefined {
  const path = Buffer.from(id.slice(PREFIX.length), "base64url");
  const text = path.toString("utf8");
  const isExact = text !== "" && id === `${PREFIX}${Buffer.from(text).toString("base64url")}`;
  return isExact ? `${TOP}${text}` : undefined;
}
