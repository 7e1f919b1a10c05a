/** Answers of a hub to a push. The hub sends more, which is dropped. */
import { z } from "zod";
import { outside, table } from "../../../lib/json/outside.ts";
import { later } from "../../../lib/schema.ts";
import { MIB } from "../../../lib/units.ts";

const MOST_FILES = 10_000;
const Url = z.string().max(8_000);

export const PREUPLOAD = outside(
  "the hub's answer about new files",
  later(() =>
    z.object({
      files: z.array(z.object({ path: z.string().max(1_000), uploadMode: z.enum(["lfs", "regular"]) })).max(MOST_FILES),
    }),
  ),
);

/** An upload in parts has the size of a part and one address for each part among its headers. */
const Action = later(() =>
  z.object({ href: Url, header: table(z.union([Url, z.number()]), { most: MOST_FILES }).optional() }),
);
export const BATCH = outside(
  "the hub's answer about an upload",
  later(() =>
    z.object({
      objects: z
        .array(
          z.object({
            oid: z.string().max(64),
            size: z.int().min(0),
            error: z.object({ message: z.string().max(1_000) }).optional(),
            actions: z.object({ upload: Action.optional(), verify: Action.optional() }).optional(),
          }),
        )
        .max(1),
    }),
  ),
  { mostBytes: 16 * MIB, parsing: "thread" },
);

export const COMMITTED = outside(
  "the hub's answer to a commit",
  later(() =>
    z.object({
      commitOid: z
        .string()
        .regex(/^[0-9a-f]{40,64}$/)
        .max(64),
    }),
  ),
);

/** The reason of a refusal, in the words of the hub. */
export const REFUSAL = outside(
  "the hub's reason",
  later(() => z.object({ error: z.string().max(2_000) })),
);
