import { PRIORITIES } from "../../../lib/chat/priority.ts";
import { UsageError } from "../../../lib/errors.ts";
import { nearest } from "../../../lib/text/nearest.ts";
import { expiresSoon, isoTime, parseDuration } from "../../../lib/time.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, type Group, JSON_FLAG, momentOf } from "../../args.ts";
import { count, note, printList, printResult } from "../../output.ts";
import { rotateMaster } from "../operate/rotate_master.ts";

const WORKSPACE = { type: "string", value: "NAME", doc: 'Workspace of the key (default "default")' } as const;
const WHERE = { data: DATA_FLAG, config: CONFIG_FLAG, workspace: WORKSPACE } as const;

const NEW = { create: true }; // the first key may come before the first start

const create = command({
  summary: "Create an API key and print it; it is shown only once",
  flags: {
    ...WHERE,
    name: { type: "string", value: "NAME", doc: 'Name of the key (default "cli")' },
    scope: {
      type: "string",
      value: "SCOPE",
      choices: ["*", "read", "inference", "training", "detect", "metrics", "annotate", "admin"],
      multiple: true,
      doc: 'Permission: *, read, inference, training, detect, metrics, annotate or admin (default "*"); repeatable',
    },
    expires: {
      type: "string",
      value: "WHEN",
      doc: "Duration such as 90m, 12h or 30d, a date, or never (default: api_keys.life_days; the first key never expires)",
    },
    priority: {
      type: "string",
      value: "PRIORITY",
      choices: PRIORITIES,
      doc: "Default of its requests, and the most urgent that they may name (default: normal, and any)",
    },
    json: { type: "boolean", doc: 'Print {"id","key"}' },
  },
  examples: [
    "verk keys create --name laptop",
    "verk keys create --workspace research --scope read --expires 30d --json",
    "verk keys create --name backup-service --expires never",
  ],
  async run({ name, scope, expires, priority: named, json, ...where }) {
    const { audited, inWorkspace, keys, SCOPES } = await import("../../offline.ts");
    const scopes = scope.length === 0 ? (["*"] as const) : [...new Set(scope)].map((each) => scopeOf(each, SCOPES));
    const label = labelOf("--name", name ?? "cli");
    const priority = PRIORITIES.find((each) => each === named);
    const expires_at = expires === undefined ? undefined : endOf(expires);
    const { row, key } = await inWorkspace(
      where,
      (ctx, { id }) => {
        const fields = {
          name: label,
          scopes: [...scopes],
          expires_at,
          monthly_budget_usd: null,
          priority,
          metadata: {},
        };
        const created = keys.create(ctx, id, fields);
        audited(ctx, "verk keys create", id, created.row.id);
        return created;
      },
      NEW,
    );
    const end = row.expiresAt === null ? "never expires" : `expires ${isoTime(row.expiresAt)}`;
    const remark = `${row.id}, scopes ${row.scopes.join(", ")}, ${end}. Store the key now: it is not shown again.`;
    printResult(json, { id: row.id, key }, { result: key, remark });
    return EXIT.ok;
  },
});

const list = command({
  summary: "List the active API keys of a workspace, newest first",
  flags: { ...WHERE, json: JSON_FLAG },
  examples: ["verk keys list", "verk keys list --workspace research --json"],
  async run({ json, ...where }) {
    const { allOf, inWorkspace, keys } = await import("../../offline.ts");
    const active = await inWorkspace(where, (ctx, { id }) => allOf((query) => keys.list(ctx, id, query)));
    printList(json, active, {
      columns: {
        ID: ({ id }) => id,
        NAME: ({ name }) => name,
        PREFIX: ({ key_prefix }) => key_prefix,
        SCOPES: ({ scopes }) => scopes.join(","),
        EXPIRES: ({ expires_at }) => expires_at ?? "never",
        "LAST USED": ({ last_used_at }) => last_used_at ?? "never",
      },
      empty: "No active keys. Create one with `verk keys create`.",
    });
    const soon = active.filter((key) => expiresSoon(Date.parse(key.created_at), parsed(key.expires_at), Date.now()));
    if (!json && soon.length > 0)
      note(`${count(soon.length, "key")} will expire soon. Replace a key with \`verk keys rotate ID\`.`);
    return EXIT.ok;
  },
});

const revoke = command({
  summary: "Revoke an API key: a running server rejects it within a second",
  takes: ["id"],
  flags: { ...WHERE, json: JSON_FLAG },
  examples: ["verk keys revoke key_01j9…", "verk keys revoke key_01j9… --workspace research"],
  exits: { 1: "failed: the workspace has no such key (choose the workspace with --workspace)" },
  async run({ json, ...where }, id = "") {
    const { audited, inWorkspace, keys } = await import("../../offline.ts");
    await inWorkspace(where, (ctx, workspace) => {
      keys.revoke(ctx, workspace.id, id);
      audited(ctx, `verk keys revoke ${id}`, workspace.id);
    });
    printResult(json, { id, object: "api_key", deleted: true }, { remark: `${id} is revoked.` });
    return EXIT.ok;
  },
});

const rotate = command({
  summary: "Replace an API key and print the new one; the old one works for a while",
  takes: ["id"],
  flags: {
    ...WHERE,
    grace: {
      type: "string",
      value: "TIME",
      doc: 'Time in which the old key still works, such as 2h or 7d (default "24h")',
    },
    json: { type: "boolean", doc: 'Print {"id","key"}' },
  },
  examples: ["verk keys rotate key_01j9…", "verk keys rotate key_01j9… --grace 7d"],
  exits: { 1: "failed: the workspace has no such key, or it is revoked or expired" },
  async run({ grace = "24h", json, ...where }, id = "") {
    const { audited, inWorkspace, rotateKey } = await import("../../offline.ts");
    const graceMs = parseDuration(grace);
    if (graceMs === undefined)
      throw new UsageError(`--grace: expected a duration such as 2h or 7d, not ${JSON.stringify(grace)}`);
    const { row, key } = await inWorkspace(where, (ctx, { id: workspaceId }) => {
      const rotated = rotateKey(ctx, { workspaceId, id, graceMs });
      audited(ctx, `verk keys rotate ${id}`, workspaceId, rotated.row.id);
      return rotated;
    });
    const remark = `${row.id} replaces ${id}, which works for ${grace} more. Store the key now: it is not shown again.`;
    printResult(json, { id: row.id, key }, { result: key, remark });
    return EXIT.ok;
  },
});

export const keys: Group = {
  summary: "Manage API keys, with or without a running server; rotate the master key",
  subcommands: { create, list, rotate, revoke, "rotate-master": rotateMaster },
};

const endOf = (text: string) => (text === "never" ? null : momentOf("expires", text, Date.now()));
const parsed = (time: string | null) => (time === null ? null : Date.parse(time));

function scopeOf<S extends string>(text: string, scopes: readonly S[]): S {
  const scope = scopes.find((each) => each === text);
  if (scope) return scope;
  const close = nearest(text, scopes);
  throw new UsageError(
    `--scope: there is no scope ${JSON.stringify(text)}.${close ? ` Did you mean ${close}?` : ""} Scopes: ${scopes.join(", ")}.`,
  );
}

/** Checks a name as the API does. The message names the flag instead of the field. */
export function labelOf(flag: string, text: string): string {
  const label = text.trim();
  if (label === "" || label.length > 100 || /\p{Cc}/u.test(label) || !label.isWellFormed())
    throw new UsageError(`${flag}: expected 1 to 100 printable characters`);
  return label;
}
