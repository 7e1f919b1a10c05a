import { formatBytes } from "../../../lib/bytes.ts";
import { UsageError } from "../../../lib/errors.ts";
import { FORMATS } from "../../../lib/rows/format.ts";
import { nearest } from "../../../lib/text/nearest.ts";
import { command, EXIT, FULL_FLAG, type Group, JSON_FLAG, SERVER_FLAGS, wholeOf } from "../../args.ts";
import { connect } from "../../connect.ts";
import { append } from "../../datasets/append.ts";
import { allDatasets, type Dataset, mustFind, type Snapshot } from "../../datasets/find.ts";
import { preview } from "../../datasets/preview.ts";
import { pull } from "../../datasets/pull.ts";
import { push } from "../../datasets/push.ts";
import { columns, count, note, print, printJson, printTable } from "../../output.ts";
import { labelOf } from "./keys.ts";

const FLAGS = { ...SERVER_FLAGS, json: JSON_FLAG } as const;
const NONE = { 1: "failed: there is no such dataset" };

const list = command({
  summary: "List the datasets, newest first",
  flags: { ...FLAGS, full: FULL_FLAG },
  examples: ["verk datasets list", "verk datasets list --json"],
  async run({ json, full, ...where }) {
    const { client } = await connect(where);
    const found = await allDatasets(client);
    if (json) printJson({ object: "list", data: found, has_more: false });
    else {
      const rows = found.map((each) => [
        each.id,
        each.name,
        each.source_type,
        each.format ?? "-",
        each.num_rows === null ? "-" : String(each.num_rows),
        each.size_bytes === null ? "-" : formatBytes(each.size_bytes),
        String(each.snapshot_count ?? 0),
        each.created_at,
      ]);
      const header = ["ID", "NAME", "SOURCE", "FORMAT", "ROWS", "SIZE", "SNAPSHOTS", "CREATED"];
      printTable(header, rows, "No datasets. Upload one with `verk datasets push FILE`.", { full });
    }
    return EXIT.ok;
  },
});

const show = command({
  summary: "Show a dataset",
  takes: ["dataset"],
  flags: FLAGS,
  examples: ["verk datasets show support"],
  exits: NONE,
  async run({ json, ...where }, target = "") {
    const { client } = await connect(where);
    const found = await mustFind(client, target);
    if (json) printJson(found);
    else for (const line of columns(factsOf(found))) print(line);
    return EXIT.ok;
  },
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

const create = command({
  summary: "Create an empty dataset to append rows to",
  takes: ["name"],
  flags: {
    ...FLAGS,
    format: { type: "string", value: "FORMAT", doc: `Format of the rows: ${FORMATS.join(", ")}` },
    "auto-snapshot": { type: "string", value: "N", doc: "Create a snapshot after every N rows (default: never)" },
  },
  examples: [
    "verk datasets create feedback --format preference",
    "verk datasets create log --format chat --auto-snapshot 10000",
  ],
  fields: { auto_snapshot_rows: "--auto-snapshot" },
  async run({ json, format, "auto-snapshot": every, ...where }, name = "") {
    const body = {
      name: labelOf("name", name),
      format: formatOf(format),
      auto_snapshot_rows: wholeOf("auto-snapshot", every) ?? null,
    };
    const { client } = await connect(where);
    const { body: made } = await client.call<Dataset>("POST", "/v1/datasets", body);
    if (json) printJson(made);
    else {
      print(made.id);
      note(`Append rows with \`verk datasets append ${made.id} FILE\`.`);
    }
    return EXIT.ok;
  },
});

function formatOf(text: string | undefined) {
  const found = FORMATS.find((format) => format === text);
  if (found) return found;
  const close = text === undefined ? undefined : nearest(text, FORMATS);
  const wrong = text === undefined ? "give the format of the rows" : `there is no format ${JSON.stringify(text)}`;
  throw new UsageError(`--format: ${wrong}${close ? `. Did you mean ${close}?` : `: ${FORMATS.join(", ")}`}`);
}

const snapshot = command({
  summary: "Create a snapshot of the current rows; a snapshot never changes",
  takes: ["dataset"],
  flags: { ...FLAGS, note: { type: "string", value: "TEXT", doc: "Note about the snapshot" } },
  examples: ["verk datasets snapshot support", 'verk datasets snapshot support --note "before the cleanup"'],
  exits: NONE,
  async run({ json, note: text, ...where }, target = "") {
    const { client } = await connect(where);
    const { id, name } = await mustFind(client, target);
    const fields = text === undefined ? {} : { note: text };
    const { status, body } = await client.call<Snapshot>("POST", `/v1/datasets/${id}/snapshots`, fields);
    if (json) printJson(body);
    else {
      print(body.id);
      const facts = `${count(body.row_count, "row")}, ${formatBytes(body.size_bytes)}, sha256 ${body.sha256}`;
      note(`${status === 200 ? "No new rows since " : ""}${name}${body.id}: ${facts}.`);
    }
    return EXIT.ok;
  },
});

const remove = command({
  summary: "Delete a dataset with its rows and snapshots",
  takes: ["dataset"],
  flags: FLAGS,
  examples: ["verk datasets delete ds_01j9…"],
  exits: { 1: "failed: there is no such dataset, or a job that has not ended uses it" },
  async run({ json, ...where }, target = "") {
    const { client } = await connect(where);
    const { id, name } = await mustFind(client, target);
    const { body } = await client.call("DELETE", `/v1/datasets/${id}`);
    if (json) printJson(body);
    else note(`${name} (${id}) is deleted.`);
    return EXIT.ok;
  },
});

export const datasets: Group = {
  summary: "Manage the datasets of a running server",
  subcommands: { push, pull, list, show, create, append, preview, snapshot, delete: remove },
};
