import { z } from "zod";
import { isoTime } from "./time.ts";

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
const CONTROL = /[\u0000-\u001f\u007f]/;

/** A human's short text: trimmed, not empty, no control characters, no lone surrogates. */
export const Label = (maxLength = 200) =>
  z
    .string()
    .trim()
    .min(1)
    .max(maxLength)
    .refine((text) => !CONTROL.test(text), "must not contain control characters")
    .refine((text) => text.isWellFormed(), "must be well-formed Unicode");

/** Up to 16 string pairs that a user keeps on a resource. */
export const Metadata = z
  .record(
    Label(64),
    z
      .string()
      .max(512)
      .refine((text) => text.isWellFormed(), "must be well-formed Unicode"),
  )
  .refine((pairs) => Object.keys(pairs).length <= 16, "takes at most 16 pairs")
  .describe("Up to 16 string pairs of your own");
export type Metadata = Record<string, string>;

/** The same in a form, whose fields are texts. */
export const MetadataText = z
  .string()
  .transform((text, { addIssue }) => {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      addIssue({ code: "custom", message: "must be a JSON object of strings" });
      return z.NEVER;
    }
  })
  .pipe(Metadata);

export const DateTime = z.iso.datetime().describe("UTC, ISO 8601 with milliseconds");
export const isoOrNull = (epochMs: number | null) => (epochMs === null ? null : isoTime(epochMs));

/** What a DELETE answers. */
export const Deleted = <O extends string>(object: O) =>
  z.object({ id: z.string(), object: z.literal(object), deleted: z.literal(true) });
