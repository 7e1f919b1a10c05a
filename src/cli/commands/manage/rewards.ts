import { basename } from "node:path";
import { z } from "zod";
import { LIBRARY } from "../../../lib/rewards/library.ts";
import type { RewardFunction } from "../../../resources/training/reward_functions/schema.ts";
import { command, EXIT, type Group, JSON_FLAG } from "../../args.ts";
import { connect } from "../../connect.ts";
import { note, printJson, printResult, printTable } from "../../output.ts";
import { COMMON_FLAGS, listCommand, removeCommand } from "../../resource_commands.ts";
import { readCode } from "../../rewards/input.ts";
import { rejectionText } from "../../rewards/report.ts";
import { test } from "../../rewards/test.ts";

const KIND = "reward or resolver (code that maps the rows of a job)";

const list = listCommand({
  summary: "List the newest version of each reward function and data resolver",
  examples: ["verk rewards list", "verk rewards list --kind resolver", "verk rewards list --all --json"],
  path: "/v1/reward_functions",
  flags: {
    all: { type: "boolean", doc: "List every version" },
    kind: { type: "string", value: "KIND", doc: `Only this kind: ${KIND}` },
  },
  query: ({ all, kind }) => ({ latest: String(!all), kind }),
  columns: {
    ID: ({ id }: RewardFunction) => id,
    NAME: ({ name, version }) => `${name}@${version}`,
    KIND: ({ kind }) => kind,
    LANGUAGE: ({ language }) => language,
    STATUS: ({ status }) => status,
    FUNCTIONS: ({ entrypoints }) => entrypoints.map(({ name }) => name).join(", ") || "-",
    CREATED: ({ created_at }) => created_at ?? "-",
  },
  empty: "No reward functions. Upload one with `verk rewards push FILE`.",
});

const push = command({
  summary: "Upload a reward function or a data resolver; an existing name gets a new version",
  takes: ["file"],
  flags: {
    ...COMMON_FLAGS,
    kind: { type: "string", value: "KIND", doc: `${KIND}; default: reward` },
    name: { type: "string", value: "NAME", doc: "Name of the function (default: the file's name without its ending)" },
    language: {
      type: "string",
      value: "NAME",
      choices: ["python", "typescript", "javascript"],
      doc: "python, typescript or javascript (default: by the file's name)",
    },
    description: { type: "string", value: "TEXT", doc: "Description of the function" },
  },
  examples: [
    "verk rewards push accuracy.py",
    "verk rewards push reward.ts --name brevity",
    "verk rewards push clean.py --kind resolver",
  ],
  exits: { 1: "failed: the code was rejected (the message says where and why), or the server cannot be reached" },
  async run({ json, kind, name, language, description, ...where }, file = "") {
    const code = await readCode(file, language);
    const { client } = await connect(where);
    const { status, body } = await client.call<RewardFunction>("POST", "/v1/reward_functions", {
      name: name ?? code.name,
      source: code.source,
      language: code.language,
      ...(kind === undefined ? {} : { kind }),
      ...(description === undefined ? {} : { description }),
    });
    printResult(json, body, { result: body.id });
    if (body.error) {
      const { code: kind, ...error } = body.error;
      note(rejectionText(basename(file), code.source, { kind, ...error }, code.language));
      return EXIT.failed;
    }
    const functions = body.entrypoints.map((each) => each.signature).join(", ");
    note(`${status === 200 ? "This code was uploaded before: " : ""}${body.name}@${body.version}, ${functions}.`);
    return EXIT.ok;
  },
});

const library = command({
  summary: "List the built-in reward functions, which can be used by name",
  flags: { json: JSON_FLAG },
  examples: ["verk rewards library"],
  run({ json }) {
    const all = Object.entries(LIBRARY);
    if (json) {
      const data = all.map(([name, { params, language, description }]) => {
        return { name, language, description, params: z.toJSONSchema(params, { io: "input" }) };
      });
      printJson({ object: "list", data, has_more: false });
    } else {
      const rows = all.map(([name, { description, params }]) => [
        name,
        Object.keys(params.unwrap().shape).join(", "),
        description,
      ]);
      printTable(["NAME", "PARAMS", "DESCRIPTION"], rows, "");
    }
    return EXIT.ok;
  },
});

const remove = removeCommand({
  summary: "Delete one version of a reward function or a data resolver",
  examples: ["verk rewards delete brevity@1", "verk rewards delete rf_…"],
  exits: { 1: "failed: there is no such version, it is built in, or the name has several versions" },
  takes: "reward",
  path: "/v1/reward_functions",
  says: ({ id }, reward) => (reward === id ? `${reward} is deleted.` : `${reward} (${id}) is deleted.`),
});

export const rewards: Group = {
  summary: "Reward functions: test code on this machine; push, list and delete functions on a server",
  subcommands: { test, push, list, library, delete: remove },
};
