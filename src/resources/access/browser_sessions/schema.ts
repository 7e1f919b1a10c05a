import { z } from "zod";
import { SCOPES } from "../../../context.ts";
import { DateTime, later } from "../../../lib/schema.ts";
import { ROLES } from "../people/policy.ts";
import { METHODS } from "./table.ts";

/** A session in a list, without the token that its writes need. */
export const ListedSession = later(() =>
  z
    .object({
      object: z.literal("browser_session"),
      id: z.string(),
      method: z.enum(METHODS).describe("How the session began"),
      address: z.string().nullable().describe("Address of the browser at sign-in"),
      user_agent: z.string().nullable().describe("User-Agent of the browser at sign-in"),
      current: z.boolean().describe("True for the session of this request"),
      last_used_at: DateTime.describe("Written up to 30 seconds after the use"),
      created_at: DateTime,
      expires_at: DateTime,
    })
    .meta({ id: "ListedBrowserSession" }),
);
export type ListedSession = z.infer<typeof ListedSession>;

export const BrowserSession = later(() =>
  z
    .object({
      object: z.literal("browser_session"),
      id: z.string(),
      csrf_token: z.string().describe("Send it in the header X-Verk-Csrf with every request that is not GET or HEAD"),
      user: z
        .object({ id: z.string(), email: z.string(), name: z.string(), role: z.enum(ROLES) })
        .nullable()
        .describe("The user who signed in; null: the session was made from the key of a service"),
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
