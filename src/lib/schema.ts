import { z } from "zod";
import { isoTime } from "./time.ts";

/** Made once, when it is first used: a schema that no request has needed yet costs a start nothing. */
export function later<S extends z.core.SomeType>(make: () => S): z.ZodLazy<S> {
  let schema: S | undefined;
  return z.lazy(() => {
    schema ??= make();
    return schema;
  });
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
const CONTROL = /[\u0000-\u001f\u007f]/;

const labels = new Map<number, ReturnType<typeof labelOf>>();

/** A human's short text: trimmed, not empty, no control characters, no lone surrogates. */
export function Label(maxLength = 200) {
  const label = labels.get(maxLength) ?? labelOf(maxLength);
  labels.set(maxLength, label);
  return label;
}

const labelOf = (maxLength: number) =>
  z.string().check(
    z.trim(),
    z.minLength(1),
    z.maxLength(maxLength),
    z.refine<string>((text) => !CONTROL.test(text), "must not contain control characters"),
    z.refine<string>((text) => text.isWellFormed(), "must be well-formed Unicode"),
  );

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

/** The answer to a DELETE. */
export const Deleted = <O extends string>(object: O) =>
  later(() => z.object({ id: z.string(), object: z.literal(object), deleted: z.literal(true) }));

/** A number in a query: `limit: numberText(z.int().min(1))`. Plain coercion reads a blank text as 0. */
export const numberText = <S extends z.ZodType<number>>(number: S) =>
  z.preprocess((text) => (typeof text === "string" && text.trim() !== "" ? Number(text) : text), number);

/** A flag in a query: `latest: flagText.default(false)`. A name without a value counts as true. */
export const flagText = z.enum(["true", "false", "1", "0", ""]).transform((text) => text !== "false" && text !== "0");

/** In an answer to a repeated request, instead of what is shown once. */
export const Notice = z.string().optional().describe("In the answer to a repeated request: what it leaves out");
