import { z } from "zod";

/** Only the signature is checked. Every fault in the query is a 403. */
export const SignedQuery = z.object({
  key: z.unknown().optional().describe("Id of the API key that created the URL"),
  expires: z.unknown().optional().describe("Time of expiry in Unix seconds"),
  signature: z.unknown().optional(),
});
