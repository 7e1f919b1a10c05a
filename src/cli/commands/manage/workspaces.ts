import { CONFIG_FLAG, type Command, command, DATA_FLAG, EXIT, type Group, JSON_FLAG } from "../../args.ts";
import { printList, printResult } from "../../output.ts";
import { settingsOf } from "../../settings.ts";
import { labelOf } from "./keys.ts";

const WHERE = { data: DATA_FLAG, config: CONFIG_FLAG, json: JSON_FLAG } as const;

const create = command({
  summary: "Create a workspace and print its id",
  takes: ["name"],
  flags: WHERE,
  examples: ["verk workspaces create research"],
  exits: { 1: "failed: the name is taken" },
  async run({ json, ...where }, name = "") {
    const { audited, offline, presentWorkspace, workspaces } = await import("../../offline.ts");
    const label = labelOf("name", name);
    const workspace = await offline(
      settingsOf(where),
      (ctx) => {
        const row = workspaces.create(ctx, { name: label, metadata: {} });
        audited(ctx, "verk workspaces create", row.id, row.id);
        return presentWorkspace(row);
      },
      { create: true },
    );
    printResult(json, workspace, { result: workspace.id });
    return EXIT.ok;
  },
});

const list = command({
  summary: "List the workspaces, newest first",
  flags: WHERE,
  examples: ["verk workspaces list --json"],
  async run({ json, ...where }) {
    const { allOf, offline, workspaces } = await import("../../offline.ts");
    const all = await offline(settingsOf(where), (ctx) => allOf((query) => workspaces.list(ctx, query)));
    printList(json, all, {
      columns: {
        ID: ({ id }) => id,
        NAME: ({ name }) => name,
        STATUS: ({ status }) => status,
        CREATED: ({ created_at }) => created_at,
      },
      empty: "No workspaces. `verk serve` creates the first one, `verk workspaces create NAME` more.",
    });
    return EXIT.ok;
  },
});

const transitions = {
  suspend: ["Suspend a workspace: its API keys are rejected until it is resumed", "suspended"],
  resume: ["Resume a suspended workspace", "active"],
  remove: ["Delete a workspace: its API keys are revoked and its name is free again", "deleted"],
} as const;

const transition = (name: string, action: keyof typeof transitions): Command =>
  command({
    summary: transitions[action][0],
    takes: ["name"],
    flags: WHERE,
    examples: [`verk workspaces ${name} research`],
    exits: { 1: "failed: the status of the workspace does not allow it" },
    async run({ json, ...where }, target = "") {
      const { audited, mustFindWorkspace, offline, presentWorkspace, workspaces } = await import("../../offline.ts");
      const row = await offline(settingsOf(where), (ctx) => {
        const moved = workspaces[action](ctx, mustFindWorkspace(ctx, target).id);
        audited(ctx, `verk workspaces ${name}`, moved.id);
        return presentWorkspace(moved);
      });
      const result = action === "remove" ? { id: row.id, object: "workspace", deleted: true } : row;
      printResult(json, result, { remark: `Workspace ${target} (${row.id}) is ${transitions[action][1]}.` });
      return EXIT.ok;
    },
  });

export const workspaces: Group = {
  summary: "Manage workspaces, with or without a running server",
  subcommands: {
    create,
    list,
    suspend: transition("suspend", "suspend"),
    resume: transition("resume", "resume"),
    delete: transition("delete", "remove"),
  },
};
