import { lifecycle } from "../../../events/lifecycle.ts";
import { present } from "./schema.ts";
import { models } from "./table.ts";

/** The workspace id in events of a model of the installation: no workspace has it. */
export const INSTALLATION = "";

// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: models,
  initial: "pending",
  terminal: ["deleted"],
  report: present,
  workspaceOf: (row) => row.workspaceId ?? INSTALLATION,
  steps: {
    // action    from                                                     to             event
    download: [["pending", "failed", "missing"],                        "downloading", null],
    accept:   [["pending", "downloading", "failed", "missing"],         "ready",       "model.ready"],
    refuse:   [["pending", "downloading", "ready", "missing"],          "failed",      "model.failed"],
    recheck:  [["ready", "failed", "missing"],                          "pending",     null], // the file was replaced
    lose:     [["pending", "ready", "failed"],                          "missing",     null], // the file was removed; it may come back
    remove:   [["pending", "downloading", "ready", "failed", "missing"], "deleted",    "model.deleted"], // the row stays: deployments name it
  },
});
