import { z } from "zod";
import { SCOPES } from "../../context.ts";
import { DateTime, later } from "../../lib/schema.ts";

export const BrowserSession = later(() =>
  z
    .object({
      object: z.literal("browser_session"),
      id: z.string(),
      csrf_token: z.string().describe("Send it in the header X-Verk-Csrf with every request that is not GET or HEAD"),
      workspace: z.object({ id: z.string(), name: z.string() }),
      key: z
        .object({ id: z.string(), name: z.string(), key_prefix: z.string(), scopes: z.array(z.enum(SCOPES)) })
        .describe("The key that the session acts for"),
      created_at: DateTime,
      expires_at: DateTime.describe("The session ends then, or after 12 hours without a request"),
    })
    .meta({ id: "BrowserSession" }),
);
export type BrowserSession = z.infer<typeof BrowserSession>;
