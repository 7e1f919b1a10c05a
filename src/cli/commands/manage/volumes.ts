import { formatBytes } from "../../../lib/bytes.ts";
import { UsageError } from "../../../lib/errors.ts";
import type { Volume } from "../../../resources/data/volumes/schema.ts";
import { command, EXIT, type Group, JSON_FLAG, SERVER_FLAGS } from "../../args.ts";
import { connect } from "../../connect.ts";
import { listAll } from "../../lists.ts";
import { note, print, printJson, printTable } from "../../output.ts";
import { cp } from "../../volumes/cp.ts";
import { filesOf, pathOf, remoteOf } from "../../volumes/plan.ts";

const FLAGS = { ...SERVER_FLAGS, json: JSON_FLAG } as const;
const NONE = { 1: "failed: there is no such volume" };

const list = command({
  summary: "List the volumes, newest first",
  flags: FLAGS,
  examples: ["verk volumes list", "verk volumes list --json"],
  async run({ json, ...where }) {
    const { client } = await connect(where);
    const found = await listAll<Volume>(client, "/v1/volumes", ({ id }) => id);
    if (json) printJson({ object: "list", data: found, has_more: false });
    else {
      const rows = found.map((each) => [
        each.name,
        String(each.file_count),
        formatBytes(each.total_bytes),
        each.updated_at,
        each.id,
      ]);
      printTable(
        ["NAME", "FILES", "SIZE", "UPDATED", "ID"],
        rows,
        "No volumes. Create one with `verk volumes create NAME`.",
      );
    }
    return EXIT.ok;
  },
});

const create = command({
  summary: "Create a volume",
  takes: ["name"],
  flags: FLAGS,
  examples: ["verk volumes create lab"],
  exits: { 1: "failed: the name is taken or not allowed" },
  async run({ json, ...where }, name = "") {
    const { client } = await connect(where);
    const { body } = await client.call<Volume>("POST", "/v1/volumes", { name });
    if (json) printJson(body);
    else {
      print(body.id);
      note(`Copy files into it with \`verk volumes cp FILE ${body.name}:\`.`);
    }
    return EXIT.ok;
  },
});

const remove = command({
  summary: "Delete a volume and all its files",
  takes: ["name"],
  flags: FLAGS,
  examples: ["verk volumes delete lab"],
  exits: NONE,
  async run({ json, ...where }, name = "") {
    const { client } = await connect(where);
    const { body } = await client.call("DELETE", `/v1/volumes/${encodeURIComponent(name)}`);
    if (json) printJson(body);
    else note(`${name} is deleted.`);
    return EXIT.ok;
  },
});

const ls = command({
  summary: "List the files of a volume by path",
  takes: ["volume"],
  flags: FLAGS,
  examples: ["verk volumes ls lab", "verk volumes ls lab:checkpoints/"],
  exits: NONE,
  async run({ json, ...where }, target = "") {
    const { client } = await connect(where);
    const remote = remoteOf(target) ?? { volume: target, path: "" };
    const found = await filesOf(client, remote);
    if (json) printJson({ object: "list", data: found, has_more: false });
    else {
      const rows = found.map((each) => [
        each.path,
        formatBytes(each.size_bytes),
        each.sha256.slice(0, 12),
        each.updated_at,
      ]);
      printTable(["PATH", "SIZE", "SHA256", "UPDATED"], rows, `No files in ${target}.`);
    }
    return EXIT.ok;
  },
});

const rm = command({
  summary: "Delete a file of a volume",
  takes: ["file"],
  flags: FLAGS,
  examples: ["verk volumes rm lab:inputs/old.bin"],
  exits: { 1: "failed: there is no such file" },
  async run({ json, ...where }, target = "") {
    const remote = remoteOf(target);
    if (!remote || remote.path === "")
      throw new UsageError(`volumes rm: expected a file such as lab:old.bin, not ${target}`);
    const { client } = await connect(where);
    const { body } = await client.call("DELETE", pathOf(remote.volume, remote.path));
    if (json) printJson(body);
    else note(`${target} is deleted.`);
    return EXIT.ok;
  },
});

export const volumes: Group = {
  summary: "Manage the volumes of a running server and their files",
  subcommands: { list, create, ls, cp, rm, delete: remove },
};
