import { z } from "zod";
import { DateTime, Label, later, Metadata } from "../../../../lib/schema.ts";
import { ModelName } from "../registry/schema.ts";

export const CreateModel = z
  .object({
    name: ModelName,
    base_model: Label(300)
      .nullable()
      .default(null)
      .describe("The model it was made from; for an adapter, its base model"),
    metadata: Metadata.default({}),
  })
  .meta({ id: "CreateModel" });
export type CreateModel = z.infer<typeof CreateModel>;

export const CreatePresignedUpload = z
  .object({
    files: z
      .array(
        z.object({
          path: Label(240).describe(
            "The file's name: model.gguf, a part such as m-00001-of-00002.gguf, or a file of a Hugging Face folder",
          ),
          size_bytes: z.int().min(1).optional().describe("If given, the file must have exactly this size"),
          sha256: z
            .string()
            .regex(/^[0-9a-f]{64}$/i, "must be 64 hex digits")
            .transform((text) => text.toLowerCase())
            .optional()
            .describe("If given, the content must match; content that the workspace already has need not be sent"),
        }),
      )
      .min(1)
      .max(100),
    expires_in_seconds: z.int().min(1).max(604_800).optional(),
  })
  .meta({ id: "CreatePresignedUpload" });
export type CreatePresignedUpload = z.infer<typeof CreatePresignedUpload>;

export const PresignedUpload = later(() =>
  z
    .object({
      object: z.literal("presigned_upload"),
      id: z.string(),
      model_id: z.string(),
      status: z.enum(["open", "received"]).describe("received if nothing has to be sent"),
      files: z.array(
        z.object({
          path: z.string(),
          method: z.literal("PUT"),
          url: z.string(),
          headers: z.record(z.string(), z.string()),
          exists: z.boolean().describe("The workspace already has this content: do not send it"),
        }),
      ),
      expires_at: DateTime,
    })
    .meta({ id: "PresignedUpload" }),
);
export type PresignedUpload = z.infer<typeof PresignedUpload>;

export const CompleteModel = z
  .object({ upload_id: z.string().optional().describe("Default: the last one") })
  .meta({ id: "CompleteModel" });

/** The answer of a PUT to a signed address. */
export const ReceivedFile = later(() =>
  z
    .object({
      object: z.literal("upload"),
      id: z.string(),
      model_id: z.string(),
      path: z.string(),
      size_bytes: z.int(),
      sha256: z.string(),
    })
    .meta({ id: "ReceivedFile" }),
);
export type ReceivedFile = z.infer<typeof ReceivedFile>;
