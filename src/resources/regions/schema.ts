import { z } from "zod";
import { later } from "../../lib/schema.ts";

export const Region = later(() =>
  z
    .object({
      object: z.literal("region"),
      id: z.string(),
      name: z.string(),
      provider: z.string(),
      available: z.boolean().describe("It accepts work now"),
      gpu_types: z.array(z.string()).describe("Types of its GPUs; empty if it has only CPUs"),
    })
    .meta({ id: "Region" }),
);
export type Region = z.infer<typeof Region>;
