import { z } from "zod";
import { DateTime, later, Metadata, numberText } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { checkKey, InvalidKeyError } from "../../../platform/storage/storage.ts";
import type { VolumeFileRow, VolumeRow } from "./table.ts";

const NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;
const MAX_PARTS = 10_000; // S3's limit

export const Volume = later(() =>
  z
    .object({
      object: z.literal("volume"),
      id: z.string(),
      name: z.string(),
      total_bytes: z.int(),
      file_count: z.int(),
      metadata: z.record(z.string(), z.string()),
      created_at: DateTime,
      updated_at: DateTime,
    })
    .meta({ id: "Volume" }),
);
export type Volume = z.infer<typeof Volume>;

export const CreateVolume = later(() =>
  z
    .object({
      name: z
        .string()
        .regex(NAME, "must be 1 to 63 lower-case letters, digits and dashes, and must not begin with a dash"),
      metadata: Metadata.default({}),
    })
    .meta({ id: "CreateVolume" }),
);
export type CreateVolume = z.infer<typeof CreateVolume>;

export const VolumeFile = later(() =>
  z
    .object({
      object: z.literal("volume_file"),
      id: z.string().describe("Id of the volume, / and the path. `after` of a list takes it"),
      volume: z.string(),
      path: z.string(),
      size_bytes: z.int(),
      sha256: z.string(),
      content_type: z.string(),
      created_at: DateTime,
      updated_at: DateTime,
    })
    .meta({ id: "VolumeFile" }),
);
export type VolumeFile = z.infer<typeof VolumeFile>;

export const DeletedFile = later(() =>
  z
    .object({
      object: z.literal("volume_file"),
      id: z.string(),
      volume: z.string(),
      path: z.string(),
      deleted: z.literal(true),
    })
    .meta({ id: "DeletedVolumeFile" }),
);

/** Returns what is wrong with the path, or undefined if it is valid. */
export function pathFault(path: string): string | undefined {
  try {
    checkKey(path);
    return undefined;
  } catch (error) {
    if (!(error instanceof InvalidKeyError)) throw error;
    return `must be a path like dir/file.bin: ${error.why}`;
  }
}

export const FilePath = later(() =>
  z
    .string()
    .min(1)
    .superRefine((path, { addIssue }) => {
      const message = path === "" ? undefined : pathFault(path);
      if (message !== undefined) addIssue({ code: "custom", message });
    })
    .describe("For example checkpoints/step-10.bin"),
);
export const Sha256 = later(() =>
  z
    .string()
    .regex(/^[0-9a-f]{64}$/i, "must be 64 hex digits")
    .transform((text) => text.toLowerCase()),
);
export const ContentType = later(() =>
  z
    .string()
    .max(255)
    .regex(
      /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(\s*;\s*[\w!#$&^.+-]+=("[\w !#$&^.+/:-]*"|[\w!#$&^.+-]+))*$/,
      "must be a media type such as text/plain",
    ),
);
const ExpiresIn = z.int().min(1).max(604_800).optional().describe("Default: volumes.url_seconds");

export const CreateUploadUrl = later(() =>
  z
    .object({
      path: FilePath,
      size_bytes: z
        .int()
        .min(0)
        .optional()
        .describe("If set, the file must have exactly this size, and the space is reserved"),
      content_type: ContentType.optional(),
      sha256: Sha256.optional().describe("If set, the file must have this hash"),
      expires_in_seconds: ExpiresIn,
      parts: z
        .int()
        .min(1)
        .max(MAX_PARTS)
        .optional()
        .describe("Number of parts. Each part has its own URL; send them in any order, then POST complete_path"),
    })
    .meta({ id: "CreateUploadUrl" }),
);
export type CreateUploadUrl = z.infer<typeof CreateUploadUrl>;

const address = () => ({
  method: z.literal("PUT"),
  url: z.string(),
  headers: z.record(z.string(), z.string()).describe("Send these headers with the file"),
  max_bytes: z.int(),
});
export const UploadUrl = later(() =>
  z
    .object({
      object: z.literal("upload_url"),
      id: z.string(),
      volume: z.string(),
      path: z.string(),
      ...address(),
      url: z.string().nullable().describe("Null if the file is sent in parts"),
      parts: z.array(z.object({ number: z.int(), ...address() })).nullable(),
      complete_path: z
        .string()
        .nullable()
        .describe("POST here with your API key after everything was sent; null if not needed"),
      expires_at: DateTime,
    })
    .meta({ id: "UploadUrl" }),
);
export type UploadUrl = z.infer<typeof UploadUrl>;

export const CreateDownloadUrl = later(() =>
  z.object({ path: FilePath, expires_in_seconds: ExpiresIn }).meta({ id: "CreateDownloadUrl" }),
);
export type CreateDownloadUrl = z.infer<typeof CreateDownloadUrl>;
export const DownloadUrl = later(() =>
  z
    .object({
      object: z.literal("download_url"),
      volume: z.string(),
      path: z.string(),
      method: z.literal("GET"),
      url: z.string(),
      headers: z.record(z.string(), z.string()),
      size_bytes: z.int(),
      sha256: z.string(),
      expires_at: DateTime,
    })
    .meta({ id: "DownloadUrl" }),
);
export type DownloadUrl = z.infer<typeof DownloadUrl>;

export const AbortedUpload = later(() =>
  z.object({ id: z.string(), object: z.literal("upload"), deleted: z.literal(true) }).meta({ id: "AbortedUpload" }),
);
export const UploadPart = later(() =>
  z
    .object({ object: z.literal("upload.part"), number: z.int(), size_bytes: z.int(), sha256: z.string() })
    .meta({ id: "UploadPart" }),
);

export const FilesQuery = later(() =>
  z.object({
    prefix: z.string().max(1024).default("").describe("Only paths that begin with this text"),
    limit: numberText(z.int().min(1).max(100)).default(20).describe("Maximum number of items"),
    after: z.string().max(1024).optional().describe("id or path of the last item of the previous page"),
  }),
);
export type FilesQuery = z.infer<typeof FilesQuery>;

export const present = (row: VolumeRow): Volume => ({
  object: "volume",
  id: row.id,
  name: row.name,
  total_bytes: row.totalBytes,
  file_count: row.fileCount,
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});

export const fileId = (volume: VolumeRow, path: string) => `${volume.id}/${path}`;

export const presentFile = (volume: VolumeRow, row: VolumeFileRow): VolumeFile => ({
  object: "volume_file",
  id: fileId(volume, row.path),
  volume: volume.name,
  path: row.path,
  size_bytes: row.sizeBytes,
  sha256: row.sha256,
  content_type: row.contentType,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});
