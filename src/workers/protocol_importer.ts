/** The importer reads an uploaded file of any kind into a file of rows. It does one task and ends. */
import { z } from "zod";
import { FILE_KINDS } from "../lib/rows/file_kind.ts";
import { FORMATS } from "../lib/rows/format.ts";
import { SHAPES } from "../lib/rows/shape.ts";
import { ShapeOptions } from "../lib/rows/shaping.ts";
import { later } from "../lib/schema.ts";
import { fromWorker } from "./protocol.ts";

export const ToImporter = later(() =>
  z.discriminatedUnion("type", [
    z.strictObject({
      type: z.literal("import"),
      /** The uploaded file, and the name that the sender gave it. */
      from: z.string(),
      name: z.string(),
      /** The new file of rows. */
      path: z.string(),
      row_bytes: z.int().positive(),
      /** Ends the work: the rows may become larger than the file. */
      max_bytes: z.number().positive(),
      options: ShapeOptions.omit({ cells: true }),
    }),
  ]),
);
export type ToImporter = z.infer<typeof ToImporter>;

export const FromImporter = later(() =>
  fromWorker([
    z.strictObject({
      type: z.literal("imported"),
      kind: z.enum(FILE_KINDS),
      rows: z.int(),
      bytes: z.int(),
      format: z.enum(FORMATS),
      shape: z.enum(SHAPES),
    }),
    /** The file is at fault. The message is shown to the caller. */
    z.strictObject({ type: z.literal("refused"), message: z.string(), too_large: z.boolean() }),
  ]),
);
export type FromImporter = z.infer<typeof FromImporter>;
