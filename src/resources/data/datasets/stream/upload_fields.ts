import { z } from "zod";
import { FORMATS } from "../../../../lib/rows/format.ts";
import { SHAPES } from "../../../../lib/rows/shape.ts";
import { Label, Metadata } from "../../../../lib/schema.ts";

/** The fields of an upload, besides its file. */
const MAX_COLUMNS = 256; // of a map
const MapOfColumns = z
  .record(z.string().min(1).max(200), z.string().min(1).max(200))
  .refine((map) => Object.keys(map).length <= MAX_COLUMNS, `must have at most ${MAX_COLUMNS} columns`);
export const UploadFields = z.object({
  name: Label(),
  metadata: Metadata.default({}),
  map: MapOfColumns.default({}),
  shape: z.enum(SHAPES).optional(),
  format: z.enum(FORMATS).optional(),
});
export type UploadFields = z.infer<typeof UploadFields>;
