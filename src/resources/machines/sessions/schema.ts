import { z } from "zod";
import { DateTime, isoOrNull, Label, later, Metadata } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { type SessionRow, STATUSES } from "./table.ts";
import { isInWorkspace, mountPathFault } from "./workspace/mount_paths.ts";

export { isInWorkspace };

const MOST_VARIABLES = 100;
const MOST_ENV_BYTES = 65_536;
const MOST_ARGUMENT_BYTES = 100_000; // the kernel takes 128 KiB each
const NO_NUL = "must not contain a NUL character";

const text = (name: string) =>
  z
    .string()
    .refine((value) => !value.includes("\0"), NO_NUL)
    .refine((value) => value.isWellFormed(), "must be well-formed Unicode")
    .refine(
      (value) => Buffer.byteLength(value) <= MOST_ARGUMENT_BYTES,
      `${name} must have at most ${MOST_ARGUMENT_BYTES} bytes`,
    );

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

export const Env = later(() =>
  z
    .record(z.string(), text("a variable"))
    .superRefine((env, { addIssue }) => {
      const odd = Object.keys(env).find((name) => !VARIABLE.test(name));
      if (odd !== undefined) addIssue({ code: "custom", path: [odd], message: "must be a name such as API_TOKEN" });
    })
    .refine((env) => Object.keys(env).length <= MOST_VARIABLES, `must have at most ${MOST_VARIABLES} variables`)
    .refine(
      (env) => Buffer.byteLength(JSON.stringify(env)) <= MOST_ENV_BYTES,
      `must have at most ${MOST_ENV_BYTES} bytes`,
    )
    .describe("Environment variables; stored encrypted, and only their names are shown"),
);

export const MountPath = later(() =>
  z
    .string()
    .superRefine((path, { addIssue }) => {
      const message = mountPathFault(path);
      if (message !== undefined) addIssue({ code: "custom", message });
    })
    .describe("For example /data or /workspace/data"),
);

const Mount = later(() =>
  z
    .object({
      name: z.string().min(1).max(80).describe("Name or id of a volume"),
      mount_path: MountPath,
      read_only: z
        .boolean()
        .default(true)
        .describe(
          "If true, every write fails. If false, changes are written back to the volume, which needs a mount_path below /workspace",
        ),
    })
    .refine(({ mount_path, read_only }) => read_only || isInWorkspace(mount_path), {
      path: ["mount_path"],
      message: "must be below /workspace if read_only is false",
    }),
);

export const CreateSession = later(() =>
  z
    .object({
      name: Label(200).nullable().default(null),
      timeout_seconds: z.int().min(10).optional().describe("Lifetime; default and maximum: sessions.lifetime_seconds"),
      idle_timeout_seconds: z
        .int()
        .min(10)
        .optional()
        .describe("The session expires after this long without use; default: sessions.idle_seconds"),
      env: Env.default({}),
      volumes: z.array(Mount).max(16).default([]),
      network: z.boolean().default(false).describe("Use the network of the server; needs sessions.allow_network"),
      metadata: Metadata.default({}),
    })
    .meta({ id: "CreateSession" }),
);
export type CreateSession = z.infer<typeof CreateSession>;

export const Session = later(() =>
  z
    .object({
      object: z.literal("session"),
      id: z.string(),
      name: z.string().nullable(),
      status: z.enum(STATUSES),
      error: z.string().nullable().describe("Why the session failed"),
      env: z.array(z.string()).describe("Names of the variables; empty after the session has ended"),
      volumes: z.array(z.object({ name: z.string(), mount_path: z.string(), read_only: z.boolean() })),
      network: z.boolean(),
      timeout_seconds: z.int(),
      idle_timeout_seconds: z.int(),
      exec_count: z.int(),
      expires_at: DateTime.describe("The session ends at this time, also if a command is running"),
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

export const CreateExec = later(() =>
  z
    .object({
      command: z
        .union([text("a command").min(1), z.array(text("an argument")).min(1).max(1000)])
        .describe("A string is run by /bin/sh -c; a list is a program and its arguments"),
      cwd: text("cwd")
        .refine((path) => path.startsWith("/"), "must be an absolute path such as /workspace")
        .default("/workspace"),
      env: Env.default({}).describe("Added to the variables of the session"),
      stdin: z.string().default(""),
      timeout_seconds: z.int().min(1).optional().describe("Default 300; maximum: sessions.exec_timeout_seconds"),
      stream: z
        .boolean()
        .default(false)
        .describe("Answer with server-sent events: stdout and stderr as they arrive, then exit with the whole object"),
    })
    .meta({ id: "CreateSessionExec" }),
);
export type CreateExec = z.infer<typeof CreateExec>;

export const EXEC_STATUSES = [
  "completed",
  "failed",
  "timeout",
  "memory_exceeded",
  "disk_exceeded",
  "cancelled",
] as const;

const VolumeErrors = later(() =>
  z
    .array(z.object({ volume: z.string(), path: z.string(), message: z.string() }))
    .describe("Files that could not be written back; the session still has them"),
);
export type VolumeErrors = z.infer<typeof VolumeErrors>;

export const Exec = later(() =>
  z
    .object({
      object: z.literal("session.exec"),
      id: z.string(),
      session_id: z.string(),
      status: z.enum(EXEC_STATUSES).describe("completed: the command ended with exit code 0"),
      exit_code: z.int().nullable().describe("Null if the command was killed or did not start"),
      signal: z.int().nullable().describe("Number of the signal that killed the command"),
      stdout: z.string().describe("Empty if it was streamed; bytes that are not UTF-8 are replaced"),
      stderr: z.string(),
      truncated: z.boolean().describe("stdout or stderr was longer than sessions.output_bytes; the rest is dropped"),
      duration_ms: z.int(),
      error: z.string().nullable().describe("Why the command was killed or not started"),
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
      path: z.string().describe("With symlinks resolved; always under /workspace"),
      type: z.enum(KINDS),
      size: z.int().nullable().describe("Bytes of a file; null for a directory"),
      entries: z.array(z.object({ name: z.string(), type: z.enum(KINDS) })).describe("Sorted by name, at most 1000"),
      truncated: z.boolean().describe("The directory has more than 1000 entries; the rest is omitted"),
    })
    .meta({ id: "SessionFileListing" }),
);

const file = () => ({
  object: z.literal("session.file"),
  session_id: z.string(),
  path: z.string(),
  volume_errors: VolumeErrors,
});
export const WrittenFile = later(() =>
  z.object({ ...file(), size: z.int(), sha256: z.string() }).meta({ id: "SessionFile" }),
);
export const DeletedFile = later(() =>
  z.object({ ...file(), deleted: z.literal(true) }).meta({ id: "DeletedSessionFile" }),
);

export const FilesQuery = later(() =>
  z.object({
    path: z.string().max(8192).default("/workspace").describe("Absolute path under /workspace"),
  }),
);
/** `path` is optional here, so that a missing session is reported before a missing path. */
export const ContentQuery = later(() =>
  z.object({
    path: z.string().max(8192).optional().describe("Absolute path of the file, under /workspace. Required"),
  }),
);
export const DeleteQuery = later(() =>
  ContentQuery.unwrap().extend({
    recursive: z.enum(["true", "false", "1", "0"]).default("false").describe("Required to delete a directory"),
  }),
);
export const StatusQuery = later(() =>
  z.object({ status: z.enum(STATUSES).optional().describe("Only sessions with this status") }),
);

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
