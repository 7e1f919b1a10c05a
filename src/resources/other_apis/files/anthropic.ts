/** Files in the format of Anthropic. The store is the same. Pure. */
import { z } from "zod";
import { DateTime, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { FileFields } from "./schema.ts";
import type { ClientFileRow } from "./table.ts";

/** By the ending of the name. */
export function mimeTypeOf(filename: string): string {
  const ending = /\.\w{1,10}$/.exec(filename)?.[0];
  return ending === undefined ? "application/octet-stream" : (Bun.file(`a${ending}`).type.split(";")[0] as string);
}

export const AnthropicFile = later(() =>
  z
    .object({
      id: z.string(),
      type: z.literal("file"),
      filename: z.string(),
      mime_type: z.string().describe("By the ending of the name"),
      size_bytes: z.int(),
      created_at: DateTime,
      expires_at: DateTime.nullable(),
      downloadable: z.literal(true),
    })
    .meta({ id: "AnthropicFile" }),
);

export const presentAnthropic = (row: ClientFileRow): z.infer<typeof AnthropicFile> => ({
  id: row.id,
  type: "file",
  filename: row.filename,
  mime_type: mimeTypeOf(row.filename),
  size_bytes: row.sizeBytes,
  created_at: isoTime(row.createdAt),
  expires_at: row.expiresAt === null ? null : isoTime(row.expiresAt),
  downloadable: true,
});

/** The fields of the form, besides the file. */
export const AnthropicFields = later(() => {
  const seconds = FileFields.unwrap().shape["expires_after[seconds]"];
  return z.object({ expires_in_seconds: seconds });
});

/** The same fields as OpenAI names them. */
export const fromAnthropic = ({ expires_in_seconds }: Readonly<Record<string, string>>): Record<string, string> => ({
  purpose: "user_data",
  ...(expires_in_seconds === undefined ? {} : { "expires_after[seconds]": expires_in_seconds }),
});
