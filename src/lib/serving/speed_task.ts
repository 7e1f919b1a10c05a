/** The task and the report of `verk worker speed`. */
import { z } from "zod";
import { Speed } from "./measured_speed.ts";

export const SpeedTask = z.object({
  data_dir: z.string(),
  model_path: z.string(),
  decoder: z.enum(["own", "library"]),
  threads: z.int().min(1),
  gpus: z.array(z.int().min(0)),
});
export type SpeedTask = z.infer<typeof SpeedTask>;

export const SpeedReport = z.discriminatedUnion("ok", [
  z.object({ ok: z.literal(true), speed: Speed, load_ms: z.number() }),
  z.object({ ok: z.literal(false), error: z.string() }),
]);
export type SpeedReport = z.infer<typeof SpeedReport>;
