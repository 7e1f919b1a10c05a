import { z } from "zod";
import { DateTime, Label, later, MetadataText } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { type CodeArtifactRow, FORMATS } from "./table.ts";

export const CodeArtifact = later(() =>
  z
    .object({
      object: z.literal("code_artifact"),
      id: z.string(),
      name: z.string(),
      format: z.enum(FORMATS),
      sha256: z.string(),
      size_bytes: z.int(),
      file_count: z.int(),
      unpacked_bytes: z.int(),
      metadata: z.record(z.string(), z.string()),
      created_at: DateTime,
    })
    .meta({ id: "CodeArtifact" }),
);
export type CodeArtifact = z.infer<typeof CodeArtifact>;

/** The fields of the form, besides the file. */
export const ArtifactFields = z.object({
  name: Label(200).optional().describe("Default: the file's name"),
  metadata: MetadataText.optional(),
});
export type ArtifactFields = z.infer<typeof ArtifactFields>;

export const present = (row: CodeArtifactRow): CodeArtifact => ({
  object: "code_artifact",
  id: row.id,
  name: row.name,
  format: row.format,
  sha256: row.sha256,
  size_bytes: row.sizeBytes,
  file_count: row.fileCount,
  unpacked_bytes: row.unpackedBytes,
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
});
