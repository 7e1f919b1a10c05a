import { z } from "zod";

/** Checked by its signature alone: whatever is wrong with it is a 403. */
export const SignedQuery = z.object({
  key: z.unknown().optional().describe("On behalf of which API key"),
  expires: z.unknown().optional().describe("Unix seconds"),
  signature: z.unknown().optional(),
});
