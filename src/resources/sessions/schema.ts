import { z } from "zod";
import { DateTime, isoOrNull, Label, later, Metadata } from "../../lib/schema.ts";
import { isoTime } from "../../lib/time.ts";
import { type SessionRow, STATUSES } from "./table.ts";
import { isInWorkspace, mountPathFault } from "./workspace/mount_paths.ts";

const MOST_VARIABLES = 100;
const MOST_ENV_BYTES = 65_536;
const MOST_ARGUMENT_BYTES = 100_000; // the kernel takes 128 KiB each
const NO_NUL = "must not contain a NUL";

const text = (name: string) =>
  z
    .string()
    .refine((value) => !value.includes("\0"), NO_NUL)
    .refine((value) => value.isWellFormed(), "must be well-formed Unicode")
    .refine(
      (value) => Buffer.byteLength(value) <= MOST_ARGUMENT_BYTES,
      `${name} takes at most ${MOST_ARGUMENT_BYTES} bytes`,
    );

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

const Env = z
  .record(z.string(), text("a variable"))
  .superRefine((env, { addIssue }) => {
    const odd = Object.keys(env).find((name) => !VARIABLE.test(name));
    if (odd !== undefined) addIssue({ code: "custom", path: [odd], message: "must be named like API_TOKEN" });
  })
  .refine((env) => Object.keys(env).length <= MOST_VARIABLES, `takes at most ${MOST_VARIABLES} variables`)
  .refine((env) => Buffer.byteLength(JSON.stringify(env)) <= MOST_ENV_BYTES, `takes at most ${MOST_ENV_BYTES} bytes`)
  .describe("Variables of its commands; kept sealed, never shown");

export const MountPath = z
  .string()
  .superRefine((path, { addIssue }) => {
    const message = mountPathFault(path);
    if (message !== undefined) addIssue({ code: "custom", message });
  })
  .describe("Such as /data, or /workspace/data");

const Mount = z
  .object({
    name: z.string().min(1).max(80).describe("Of a volume, or its id"),
    mount_path: MountPath,
    read_only: z
      .boolean()
      .default(true)
      .describe("false: what the session changes is written back to the volume; needs a path below /workspace"),
  })
  .refine(({ mount_path, read_only }) => read_only || isInWorkspace(mount_path), {
    path: ["mount_path"],
    message: "must lie below /workspace for read_only: false",
  });

export const CreateSession = z
  .object({
    name: Label(200).nullable().default(null),
    timeout_seconds: z.int().min(10).optional().describe("Its life; default and most: sessions.lifetime_seconds"),
    idle_timeout_seconds: z
      .int()
      .min(10)
      .optional()
      .describe("It expires when nobody used it for this long; default: sessions.idle_seconds"),
    env: Env.default({}),
    volumes: z.array(Mount).max(16).default([]),
    network: z.boolean().default(false).describe("The network of the server; only where the operator allows it"),
    metadata: Metadata.default({}),
  })
  .meta({ id: "CreateSession" });
export type CreateSession = z.infer<typeof CreateSession>;

export const Session = later(() =>
  z
    .object({
      object: z.literal("session"),
      id: z.string(),
      name: z.string().nullable(),
      status: z.enum(STATUSES),
      error: z.string().nullable().describe("Why it failed"),
      env: z.array(z.string()).describe("Names of its variables; empty once it has ended"),
      volumes: z.array(z.object({ name: z.string(), mount_path: z.string(), read_only: z.boolean() })),
      network: z.boolean(),
      timeout_seconds: z.int(),
      idle_timeout_seconds: z.int(),
      exec_count: z.int(),
      expires_at: DateTime.describe("Whatever it is doing then"),
      last_used_at: DateTime,
      ready_at: DateTime.nullable(),
      ended_at: DateTime.nullable(),
      metadata: z.record(z.string(), z.string()),
      created_at: DateTime,
      updated_at: DateTime,
    })
    .meta({ id: "Session" }),
);
export type Session = z.infer<typeof Session>;

export const CreateExec = z
  .object({
    command: z
      .union([text("a command").min(1), z.array(text("an argument")).min(1).max(1000)])
      .describe("A text is run by /bin/sh -c; a list is a program and its arguments"),
    cwd: text("cwd")
      .refine((path) => path.startsWith("/"), "must be an absolute path such as /workspace")
      .default("/workspace"),
    env: Env.default({}).describe("On top of the session's"),
    stdin: z.string().default(""),
    timeout_seconds: z.int().min(1).optional().describe("Default 300; most: sessions.exec_timeout_seconds"),
    stream: z
      .boolean()
      .default(false)
      .describe("Answer with server-sent events: stdout and stderr as they come, then exit with the whole object"),
  })
  .meta({ id: "CreateSessionExec" });
export type CreateExec = z.infer<typeof CreateExec>;

export const EXEC_STATUSES = [
  "completed",
  "failed",
  "timeout",
  "memory_exceeded",
  "disk_exceeded",
  "cancelled",
] as const;

const VolumeErrors = z
  .array(z.object({ volume: z.string(), path: z.string(), message: z.string() }))
  .describe("What could not be written back; it is still in the session");
export type VolumeErrors = z.infer<typeof VolumeErrors>;

export const Exec = later(() =>
  z
    .object({
      object: z.literal("session.exec"),
      id: z.string(),
      session_id: z.string(),
      status: z.enum(EXEC_STATUSES).describe("completed: it ended with exit code 0"),
      exit_code: z.int().nullable().describe("Null when it did not end by itself"),
      signal: z.int().nullable().describe("The number of the signal that ended it"),
      stdout: z.string().describe("Empty when it was streamed; what is not UTF-8 is replaced"),
      stderr: z.string(),
      truncated: z.boolean().describe("One of them was longer than sessions.output_bytes; the rest is dropped"),
      duration_ms: z.int(),
      error: z.string().nullable().describe("Why it was ended, or did not begin"),
      warning: z.string().nullable(),
      volume_errors: VolumeErrors,
    })
    .meta({ id: "SessionExec" }),
);
export type Exec = z.infer<typeof Exec>;

const KINDS = ["file", "directory", "symlink", "other"] as const;

export const FileListing = later(() =>
  z
    .object({
      object: z.literal("session.file_listing"),
      path: z.string().describe("Links resolved; always under /workspace"),
      type: z.enum(KINDS),
      size: z.int().nullable().describe("Bytes, of a file"),
      entries: z.array(z.object({ name: z.string(), type: z.enum(KINDS) })).describe("By name, at most 1000"),
      truncated: z.boolean().describe("There were more than 1000; the rest is left out"),
    })
    .meta({ id: "SessionFileListing" }),
);

const file = {
  object: z.literal("session.file"),
  session_id: z.string(),
  path: z.string(),
  volume_errors: VolumeErrors,
};
export const WrittenFile = later(() =>
  z.object({ ...file, size: z.int(), sha256: z.string() }).meta({ id: "SessionFile" }),
);
export const DeletedFile = later(() =>
  z.object({ ...file, deleted: z.literal(true) }).meta({ id: "DeletedSessionFile" }),
);

export const FilesQuery = z.object({
  path: z.string().max(8192).default("/workspace").describe("Absolute, under /workspace"),
});
/** Optional here, so that whoever has no such session is told that first. */
export const ContentQuery = z.object({
  path: z.string().max(8192).optional().describe("Of the file: absolute, under /workspace. Required"),
});
export const DeleteQuery = ContentQuery.extend({
  recursive: z.enum(["true", "false", "1", "0"]).default("false").describe("Needed for a directory"),
});
export const StatusQuery = z.object({ status: z.enum(STATUSES).optional().describe("Only these") });

export const present = (row: SessionRow, { env, usedAt }: { env: string[]; usedAt: number }): Session => ({
  object: "session",
  id: row.id,
  name: row.name,
  status: row.status,
  error: row.error,
  env,
  volumes: row.volumes.map(({ name, mountPath, readOnly }) => ({ name, mount_path: mountPath, read_only: readOnly })),
  network: row.network,
  timeout_seconds: row.timeoutSeconds,
  idle_timeout_seconds: row.idleSeconds,
  exec_count: row.execCount,
  expires_at: isoTime(row.expiresAt),
  last_used_at: isoTime(usedAt),
  ready_at: isoOrNull(row.readyAt),
  ended_at: isoOrNull(row.endedAt),
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});
