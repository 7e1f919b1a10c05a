import { z } from "zod";
import { DAY_MS } from "../../lib/units.ts";

/** One part of the settings, with a line that says what it is about. */
export const section = <S extends z.core.$ZodLooseShape>(doc: string, shape: S) =>
  z
    .strictObject(shape)
    .prefault({} as never)
    .describe(doc); // every leaf has a default, so {} is a valid input

export const milliseconds = z.int().min(1).max(DAY_MS);

/** Marks a setting whose value must never be shown. Put it outermost. */
export const secret = <S extends z.ZodType>(schema: S): S => schema.meta({ ...schema.meta(), secret: true });
