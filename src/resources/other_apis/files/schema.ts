import { z } from "zod";
import { ANTHROPIC_POSITION } from "../../../http/answer/anthropic.ts";
import { PageQuery } from "../../../http/answer/pagination.ts";
import { later, numberText } from "../../../lib/schema.ts";
import { DAY_MS, HOUR_MS, SECOND_MS } from "../../../lib/units.ts";
import { type ClientFileRow, PURPOSES, UPLOAD_PURPOSES } from "./table.ts";

export const ClientFile = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("file"),
      bytes: z.int(),
      created_at: z.int().describe("Unix seconds"),
      expires_at: z.int().nullable().describe("Unix seconds"),
      filename: z.string(),
      purpose: z.enum(PURPOSES),
      status: z.literal("processed"),
    })
    .meta({ id: "ClientFile" }),
);
export type ClientFile = z.infer<typeof ClientFile>;

export const seconds = (ms: number) => Math.floor(ms / SECOND_MS);
export const secondsOrNull = (ms: number | null) => (ms === null ? null : seconds(ms));

export const present = (row: ClientFileRow): ClientFile => ({
  id: row.id,
  object: "file",
  bytes: row.sizeBytes,
  created_at: seconds(row.createdAt),
  expires_at: secondsOrNull(row.expiresAt),
  filename: row.filename,
  purpose: row.purpose,
  status: "processed",
});

const LONGEST_SECONDS = (30 * DAY_MS) / SECOND_MS;
export const LONGEST_NAME = 200;

export const Lifetime = later(() =>
  z
    .int()
    .min(HOUR_MS / SECOND_MS)
    .max(LONGEST_SECONDS),
);

/** The fields of the form, besides the file. */
export const FileFields = later(() =>
  z.object({
    purpose: z.enum(UPLOAD_PURPOSES),
    "expires_after[anchor]": z.literal("created_at").optional(),
    "expires_after[seconds]": numberText(Lifetime).optional(),
  }),
);
export type FileFields = z.infer<typeof FileFields>;

export const FilesQuery = later(() =>
  PageQuery.extend({
    purpose: z.enum(PURPOSES).optional().describe("Only files with this purpose"),
    order: z.literal("desc").optional().describe("The newest file comes first"),
    ...ANTHROPIC_POSITION,
  }),
);
export type FilesQuery = z.infer<typeof FilesQuery>;
