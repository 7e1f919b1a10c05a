import { UsageError } from "../../../lib/errors.ts";
import { command, EXIT, type Group, SERVER_FLAGS } from "../../args.ts";
import type { Client } from "../../client.ts";
import { connect } from "../../connect.ts";
import { mustFind } from "../../deployments.ts";
import { INTERRUPTED, interruptible } from "../../interrupt.ts";
import { type Columns, printJson, printList } from "../../output.ts";
import { COMMON_FLAGS, showCommand } from "../../resource_commands.ts";
import { fileNamed, toFile, toOutput } from "../../transfer/sink.ts";

const PATH = "/v1/traces";

type Summary = {
  id: string;
  source: string;
  status: number;
  error_code: string | null;
  model: string | null;
  deployment_id: string | null;
  conversation_id: string | null;
  duration_ms: number;
  ttft_ms: number | null;
  prompt_tokens: number;
  completion_tokens: number;
  capture: string;
  started_at: string;
};
type Span = { name: string; start_ms: number; duration_ms: number };
type Score = { name: string; value: number | boolean | string; source: string };
type Trace = Summary & { spans: Span[]; scores: Score[]; input: unknown; output: unknown };

/** Flags that choose traces, and the query parameters that they set. */
const FILTERS = {
  deployment: { type: "string", value: "NAME", doc: "Only this deployment, by name or id" },
  status: { type: "string", value: "STATUS", doc: "Only this HTTP status, or ok, or error (400 and more)" },
  slower: { type: "string", value: "MS", doc: "Only requests that took at least this many milliseconds" },
  search: { type: "string", value: "TEXT", doc: 'Words of the captured content; "phrases" and prefix* work too' },
  conversation: { type: "string", value: "ID", doc: "Only this conversation" },
  score: { type: "string", value: "NAME", doc: "Only traces with this score" },
  since: { type: "string", value: "TIME", doc: "Recorded at this time or later, such as 2026-09-21T00:00:00Z" },
  until: { type: "string", value: "TIME", doc: "Recorded before this time" },
} as const;
const FIELDS = {
  deployment_id: "--deployment",
  min_duration_ms: "--slower",
  q: "--search",
  conversation_id: "--conversation",
};

type Filters = { [K in keyof typeof FILTERS]: string | undefined };

async function queryOf(client: Client, flags: Filters): Promise<URLSearchParams> {
  const { deployment, slower, search, conversation, ...same } = flags;
  const deploymentId = deployment === undefined ? undefined : (await mustFind(client, deployment)).id;
  const pairs = {
    ...same,
    deployment_id: deploymentId,
    min_duration_ms: slower,
    q: search,
    conversation_id: conversation,
  };
  return new URLSearchParams(
    Object.entries(pairs).flatMap(([name, value]): [string, string][] => (value === undefined ? [] : [[name, value]])),
  );
}

const list = command({
  summary: "List the newest traces",
  flags: {
    ...COMMON_FLAGS,
    ...FILTERS,
    limit: { type: "string", value: "N", doc: "How many at most, 1 to 100 (default 20)" },
  },
  examples: ["verk traces list --deployment demo --status error", 'verk traces list --search "refund"'],
  fields: FIELDS,
  async run({ url, data, config, verbose, json, limit = "20", ...filters }) {
    const { client } = await connect({ url, data, config });
    const query = await queryOf(client, filters);
    query.set("limit", limit);
    const body = await listOf(client, query, Number(limit));
    if (json) printJson(body);
    else
      printList(false, body.data, { columns: COLUMNS, empty: "No traces. Every request to a deployment makes one." });
    return EXIT.ok;
  },
});

const COLUMNS: Columns<Summary> = {
  ID: ({ id }) => id,
  SOURCE: ({ source }) => source,
  STATUS: ({ status }) => String(status),
  MODEL: ({ model }) => model ?? "",
  TIME: ({ duration_ms }) => milliseconds(duration_ms),
  PROMPT: ({ prompt_tokens }) => String(prompt_tokens),
  ANSWER: ({ completion_tokens }) => String(completion_tokens),
  STARTED: ({ started_at }) => started_at,
};

type Page = { object: "list"; data: Summary[]; has_more: boolean; next_after: string | null };

/** A page of a search may be short or empty: the next ones fill it. */
async function listOf(client: Client, query: URLSearchParams, limit: number): Promise<Page> {
  const traces: Summary[] = [];
  for (;;) {
    const { body } = await client.call<Page>("GET", `${PATH}?${query}`);
    traces.push(...body.data);
    if (body.next_after === null || traces.length >= limit) return { ...body, data: traces };
    query.set("after", body.next_after);
    query.set("limit", String(limit - traces.length));
  }
}

const milliseconds = (ms: number) => `${ms < 100 ? ms.toFixed(1) : Math.round(ms)} ms`;

const show = showCommand({
  summary: "Show a trace with its stages, scores and content",
  examples: ["verk traces show trc_01m7h6jx000000000000000000"],
  exits: { 1: "failed: there is no such trace" },
  takes: "trace",
  path: PATH,
  find: async (client, id) => {
    if (id === "") throw new UsageError("traces show: name a trace. `verk traces list` shows their ids.");
    return (await client.call<Trace>("GET", `${PATH}/${encodeURIComponent(id)}`)).body;
  },
  facts: factsOf,
});

function factsOf(trace: Trace): [string, string][] {
  const facts: [string, string | null][] = [
    ["id", trace.id],
    ["source", trace.source],
    ["status", trace.error_code === null ? String(trace.status) : `${trace.status} (${trace.error_code})`],
    ["model", trace.model],
    ["deployment", trace.deployment_id],
    ["conversation", trace.conversation_id],
    ["started", trace.started_at],
    ["time", milliseconds(trace.duration_ms)],
    ["first token", trace.ttft_ms === null ? null : milliseconds(trace.ttft_ms)],
    ["tokens", `${trace.prompt_tokens} prompt, ${trace.completion_tokens} answer`],
    ...trace.spans.map(({ name, start_ms, duration_ms }): [string, string] => [
      `span ${name}`,
      `${milliseconds(duration_ms)}, from ${milliseconds(start_ms)}`,
    ]),
    ...trace.scores.map(({ name, value, source }): [string, string] => [`score ${name}`, `${value} (${source})`]),
    ["captured", trace.capture],
    ["input", trace.input === null ? null : JSON.stringify(trace.input)],
    ["output", trace.output === null ? null : JSON.stringify(trace.output)],
  ];
  return facts.flatMap(([name, value]): [string, string][] => (value === null ? [] : [[name, value]]));
}

const exportTraces = command({
  summary: "Write traces as JSON lines to standard output or a file, oldest first",
  flags: {
    ...SERVER_FLAGS,
    ...FILTERS,
    output: {
      type: "string",
      value: "FILE",
      short: "o",
      doc: "File to write; it is replaced only when the download is complete",
    },
  },
  examples: ["verk traces export --deployment demo -o traces.jsonl", "verk traces export --since 2026-09-21T00:00:00Z"],
  fields: FIELDS,
  exits: { [INTERRUPTED]: "interrupted: FILE is unchanged" },
  async run({ url, data, config, verbose, output = "-", ...filters }) {
    const write = output === "-" ? toOutput : toFile(fileNamed("--output", output));
    const { client } = await connect({ url, data, config });
    const query = await queryOf(client, filters);
    return await interruptible(async (signal) => {
      await write(client.download(`${PATH}/export?${query}`, signal), undefined);
      return EXIT.ok;
    });
  },
});

export const traces: Group = {
  summary: "Read the traces of requests",
  subcommands: { list, show, export: exportTraces },
};
