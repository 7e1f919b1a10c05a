import { lifecycle } from "../../events/lifecycle.ts";
import { present } from "./schema.ts";
import { apiKeys } from "./table.ts";

// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: apiKeys,
  initial: "active",
  terminal: ["revoked"],
  report: present,
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action   from          to          event
    revoke:  [["active"],   "revoked",  "api_key.revoked"],
  },
});
