import { z } from "zod";
import { outside } from "../../../../lib/json/outside.ts";
import { later } from "../../../../lib/schema.ts";
import { MIB } from "../../../../lib/units.ts";

const MOST_FILES = 20_000;

/** The files of a repository. The hub sends more, which is dropped. */
const Listing = later(() =>
  z.object({
    siblings: z
      .array(
        z.object({
          rfilename: z.string().max(1_000),
          size: z.int().min(0).nullish(),
          blobId: z.string().max(64).nullish(),
          lfs: z.object({ sha256: z.string().regex(/^[0-9a-f]{64}$/), size: z.int().min(0).optional() }).nullish(),
        }),
      )
      .max(MOST_FILES),
  }),
);

export const HUB_LISTING = outside("the hub's list of files", Listing, { mostBytes: 16 * MIB, parsing: "thread" });
