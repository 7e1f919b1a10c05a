import { lifecycle } from "../../../events/lifecycle.ts";
import { type ApiKeyRow, apiKeys } from "./table.ts";

export const report = ({ id, name, prefix, scopes }: ApiKeyRow) => ({
  object: "api_key" as const,
  id,
  name,
  key_prefix: prefix,
  scopes,
});

// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: apiKeys,
  initial: "active",
  terminal: ["revoked"],
  report,
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action   from          to          event
    revoke:  [["active"],   "revoked",  "api_key.revoked"],
  },
});
