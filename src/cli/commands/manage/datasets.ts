import { formatBytes } from "../../../lib/bytes.ts";
import { UsageError } from "../../../lib/errors.ts";
import { FORMATS } from "../../../lib/rows/format.ts";
import { nearest } from "../../../lib/text/nearest.ts";
import { command, EXIT, type Group, wholeOf } from "../../args.ts";
import { connect } from "../../connect.ts";
import { append } from "../../datasets/append.ts";
import { type Dataset, mustFind, type Snapshot } from "../../datasets/find.ts";
import { preview } from "../../datasets/preview.ts";
import { pull } from "../../datasets/pull.ts";
import { push } from "../../datasets/push.ts";
import { count, printResult } from "../../output.ts";
import { COMMON_FLAGS, createCommand, listCommand, removeCommand, showCommand } from "../../resource_commands.ts";
import { labelOf } from "./keys.ts";

const NONE = { 1: "failed: there is no such dataset" };

const list = listCommand({
  summary: "List the datasets, newest first",
  examples: ["verk datasets list", "verk datasets list --json"],
  path: "/v1/datasets",
  columns: {
    ID: ({ id }: Dataset) => id,
    NAME: ({ name }) => name,
    SOURCE: ({ source_type }) => source_type,
    FORMAT: ({ format }) => format ?? "-",
    ROWS: ({ num_rows }) => (num_rows === null ? "-" : String(num_rows)),
    SIZE: ({ size_bytes }) => (size_bytes === null ? "-" : formatBytes(size_bytes)),
    SNAPSHOTS: ({ snapshot_count }) => String(snapshot_count ?? 0),
    CREATED: ({ created_at }) => created_at,
  },
  empty: "No datasets. Upload one with `verk datasets push FILE`.",
  hasShortIds: true,
});

const show = showCommand({
  summary: "Show a dataset",
  examples: ["verk datasets show support"],
  exits: NONE,
  takes: "dataset",
  path: "/v1/datasets",
  find: mustFind,
  facts: factsOf,
});

function factsOf(each: Dataset): [string, string][] {
  const source = each.source_uri ?? each.hub_dataset ?? each.db_query;
  const facts: [string, string | null][] = [
    ["id", each.id],
    ["name", each.name],
    ["source", source === null ? each.source_type : `${each.source_type}: ${source}`],
    ["format", each.format ?? "unknown"],
    ["rows", each.num_rows === null ? null : String(each.num_rows)],
    ["size", each.size_bytes === null ? null : formatBytes(each.size_bytes)],
    ["head row", String(each.head_row)],
    ["snapshots", String(each.snapshot_count ?? 0)],
    ["latest snapshot", each.latest_snapshot_id],
    ["rows since", each.unsnapshotted_rows === null ? null : String(each.unsnapshotted_rows)],
    ["snapshot every", each.auto_snapshot_rows === null ? null : count(each.auto_snapshot_rows, "row")],
    ["created", each.created_at],
    ["updated", each.updated_at],
  ];
  return facts.filter((fact): fact is [string, string] => fact[1] !== null);
}

const create = createCommand({
  summary: "Create an empty dataset to append rows to",
  takes: "name",
  path: "/v1/datasets",
  flags: {
    format: { type: "string", value: "FORMAT", choices: FORMATS, doc: `Format of the rows: ${FORMATS.join(", ")}` },
    "auto-snapshot": { type: "string", value: "N", doc: "Create a snapshot after every N rows (default: never)" },
  },
  examples: [
    "verk datasets create feedback --format preference",
    "verk datasets create log --format chat --auto-snapshot 10000",
  ],
  fields: { auto_snapshot_rows: "--auto-snapshot" },
  body: ({ format, "auto-snapshot": every }, name) => ({
    name: labelOf("name", name),
    format: formatOf(format),
    auto_snapshot_rows: wholeOf("auto-snapshot", every) ?? null,
  }),
  says: ({ id }: Dataset) => `Append rows with \`verk datasets append ${id} FILE\`.`,
});

function formatOf(text: string | undefined) {
  const format = FORMATS.find((each) => each === text);
  if (format) return format;
  const close = text === undefined ? undefined : nearest(text, FORMATS);
  const wrong = text === undefined ? "give the format of the rows" : `there is no format ${JSON.stringify(text)}`;
  throw new UsageError(`--format: ${wrong}${close ? `. Did you mean ${close}?` : `: ${FORMATS.join(", ")}`}`);
}

const snapshot = command({
  summary: "Create a snapshot of the current rows; a snapshot never changes",
  takes: ["dataset"],
  flags: { ...COMMON_FLAGS, note: { type: "string", value: "TEXT", doc: "Note about the snapshot" } },
  examples: ["verk datasets snapshot support", 'verk datasets snapshot support --note "before the cleanup"'],
  exits: NONE,
  async run({ json, note: text, ...where }, target = "") {
    const { client } = await connect(where);
    const { id, name } = await mustFind(client, target);
    const fields = text === undefined ? {} : { note: text };
    const { status, body } = await client.call<Snapshot>("POST", `/v1/datasets/${id}/snapshots`, fields);
    const facts = `${count(body.row_count, "row")}, ${formatBytes(body.size_bytes)}, sha256 ${body.sha256}`;
    const remark = `${status === 200 ? "No new rows since " : ""}${name}${body.id}: ${facts}.`;
    printResult(json, body, { result: body.id, remark });
    return EXIT.ok;
  },
});

const remove = removeCommand({
  summary: "Delete a dataset with its rows and snapshots",
  examples: ["verk datasets delete ds_01j9…"],
  exits: { 1: "failed: there is no such dataset, or a job that has not ended uses it" },
  takes: "dataset",
  path: "/v1/datasets",
  find: mustFind,
  says: ({ id, name }) => `${name} (${id}) is deleted.`,
});

export const datasets: Group = {
  summary: "Manage the datasets of a running server",
  subcommands: { push, pull, list, show, create, append, preview, snapshot, delete: remove },
};
