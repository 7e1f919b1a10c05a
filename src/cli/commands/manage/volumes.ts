import { formatBytes } from "../../../lib/bytes.ts";
import { UsageError } from "../../../lib/errors.ts";
import type { Volume } from "../../../resources/data/volumes/schema.ts";
import { command, EXIT, type Group } from "../../args.ts";
import { connect } from "../../connect.ts";
import { printList, printResult } from "../../output.ts";
import { COMMON_FLAGS, createCommand, listCommand, removeCommand } from "../../resource_commands.ts";
import { cp } from "../../volumes/cp.ts";
import { filesOf, pathOf, remoteOf } from "../../volumes/plan.ts";

const NONE = { 1: "failed: there is no such volume" };

const list = listCommand({
  summary: "List the volumes, newest first",
  examples: ["verk volumes list", "verk volumes list --json"],
  path: "/v1/volumes",
  columns: {
    NAME: ({ name }: Volume) => name,
    FILES: ({ file_count }) => String(file_count),
    SIZE: ({ total_bytes }) => formatBytes(total_bytes),
    UPDATED: ({ updated_at }) => updated_at,
    ID: ({ id }) => id,
  },
  empty: "No volumes. Create one with `verk volumes create NAME`.",
});

const create = createCommand({
  summary: "Create a volume",
  takes: "name",
  path: "/v1/volumes",
  examples: ["verk volumes create lab"],
  exits: { 1: "failed: the name is taken or not allowed" },
  body: (_, name) => ({ name }),
  says: ({ name }: Volume) => `Copy files into it with \`verk volumes cp FILE ${name}:\`.`,
});

const remove = removeCommand({
  summary: "Delete a volume and all its files",
  examples: ["verk volumes delete lab"],
  exits: NONE,
  takes: "name",
  path: "/v1/volumes",
  says: (_, name) => `${name} is deleted.`,
});

const ls = command({
  summary: "List the files of a volume by path",
  takes: ["volume"],
  flags: COMMON_FLAGS,
  examples: ["verk volumes ls lab", "verk volumes ls lab:checkpoints/"],
  exits: NONE,
  async run({ json, ...where }, target = "") {
    const { client } = await connect(where);
    const remote = remoteOf(target) ?? { volume: target, path: "" };
    printList(json, await filesOf(client, remote), {
      columns: {
        PATH: ({ path }) => path,
        SIZE: ({ size_bytes }) => formatBytes(size_bytes),
        SHA256: ({ sha256 }) => sha256.slice(0, 12),
        UPDATED: ({ updated_at }) => updated_at,
      },
      empty: `No files in ${target}.`,
    });
    return EXIT.ok;
  },
});

const rm = command({
  summary: "Delete a file of a volume",
  takes: ["file"],
  flags: COMMON_FLAGS,
  examples: ["verk volumes rm lab:inputs/old.bin"],
  exits: { 1: "failed: there is no such file" },
  async run({ json, ...where }, target = "") {
    const remote = remoteOf(target);
    if (!remote || remote.path === "")
      throw new UsageError(`volumes rm: expected a file such as lab:old.bin, not ${target}`);
    const { client } = await connect(where);
    const { body } = await client.call("DELETE", pathOf(remote.volume, remote.path));
    printResult(json, body, { remark: `${target} is deleted.` });
    return EXIT.ok;
  },
});

export const volumes: Group = {
  summary: "Manage the volumes of a running server and their files",
  subcommands: { list, create, ls, cp, rm, delete: remove },
};
