/** Uploads in parts, in the format of OpenAI. */
import { z } from "zod";
import { Label, later } from "../../../lib/schema.ts";
import type { UploadPartRow, UploadRow } from "../../data/uploads/table.ts";
import { ClientFile, Lifetime, LONGEST_NAME, seconds } from "./schema.ts";
import { UPLOAD_PURPOSES } from "./table.ts";

export const MAX_PARTS = 1_000;
const LONGEST_TYPE = 200;

export const CreateUpload = later(() =>
  z
    .object({
      filename: Label(LONGEST_NAME),
      purpose: z.enum(UPLOAD_PURPOSES),
      bytes: z.int().min(1).describe("The size of all parts together"),
      mime_type: Label(LONGEST_TYPE).describe("Has no effect"),
      expires_after: z
        .object({ anchor: z.literal("created_at"), seconds: Lifetime })
        .nullish()
        .describe("The file is removed so long after the upload was completed"),
    })
    .meta({ id: "CreateFileUpload" }),
);
export type CreateUpload = z.infer<typeof CreateUpload>;

export const CompleteUpload = later(() =>
  z
    .object({
      part_ids: z.array(z.string()).min(1).max(MAX_PARTS).describe("In the order of the file"),
      md5: z
        .string()
        .regex(/^[\da-f]{32}$/i, "takes 32 hexadecimal digits")
        .nullish()
        .describe("Checked against the content of the parts"),
    })
    .meta({ id: "CompleteFileUpload" }),
);
export type CompleteUpload = z.infer<typeof CompleteUpload>;

const STATUSES = ["pending", "completed", "cancelled", "expired"] as const;

export const FileUpload = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("upload"),
      bytes: z.int(),
      created_at: z.int().describe("Unix seconds"),
      expires_at: z.int().describe("Unix seconds. Parts of an upload that is not complete by then are removed"),
      filename: z.string(),
      purpose: z.enum(UPLOAD_PURPOSES),
      status: z.enum(STATUSES),
      file: ClientFile.nullable().describe("After completion, until the file is deleted"),
    })
    .meta({ id: "FileUpload" }),
);
export type FileUpload = z.infer<typeof FileUpload>;

export const FileUploadPart = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("upload.part"),
      created_at: z.int().describe("Unix seconds"),
      upload_id: z.string(),
    })
    .meta({ id: "FileUploadPart" }),
);

const SHOWN: Readonly<Record<UploadRow["status"], FileUpload["status"]>> = {
  open: "pending",
  receiving: "pending",
  used: "completed",
  expired: "expired",
  aborted: "cancelled",
};

/** An open upload whose time is over is expired before the loop has marked it. */
export const statusOf = ({ status, expiresAt }: UploadRow, now: number): FileUpload["status"] =>
  status === "open" && expiresAt <= now ? "expired" : SHOWN[status];

const ID_START = /^upl_/;
export const partId = ({ uploadId, number }: Pick<UploadPartRow, "uploadId" | "number">) =>
  `${uploadId.replace(ID_START, "part_")}_${number}`;

export const presentPart = (part: UploadPartRow): z.infer<typeof FileUploadPart> => ({
  id: partId(part),
  object: "upload.part",
  created_at: seconds(part.createdAt),
  upload_id: part.uploadId,
});
