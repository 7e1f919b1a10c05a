import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "../args.ts";
import { deploy } from "../commands/deploy.ts";
import { datasets } from "../commands/manage/datasets.ts";
import { jobs } from "../commands/manage/jobs.ts";
import { models } from "../commands/manage/models.ts";
import { sessions } from "../commands/manage/sessions.ts";
import { webhooks } from "../commands/manage/webhooks.ts";
import { inCliWords } from "./api_words.ts";

const { create, list } = jobs.subcommands as { create: Command; list: Command };
const others = {
  import: models.subcommands["import"],
  dataset: datasets.subcommands["create"],
  session: sessions.subcommands["create"],
  webhook: webhooks.subcommands["create"],
} as Record<"import" | "dataset" | "session" | "webhook", Command>;

const CASES: [said: string, spec: Command, param: string | null, message: string, words: string][] = [
  ["a field with another name", create, "/base_model", '/base_model: No model "x"', '--model: No model "x"'],
  [
    "a field inside another",
    create,
    "/checkpoint/save_steps",
    "checkpoint.save_steps: must be at least 1",
    "--save-steps: must be at least 1",
  ],
  [
    "two fields with one flag",
    create,
    "/reward_source",
    "reward_source: is missing: grpo needs reward_source or reward_functions",
    "--reward: is missing: grpo needs --reward",
  ],
  [
    "a hyperparameter",
    create,
    "/hyperparameters/lr",
    "hyperparameters.lr: unknown hyperparameter lr",
    "--set lr: unknown hyperparameter lr",
  ],
  [
    "a hyperparameter that is a flag",
    create,
    "/hyperparameters/save_steps",
    "hyperparameters.save_steps: save_steps is set in the job's checkpoint: checkpoint.save_steps",
    "--set save_steps: give --save-steps instead",
  ],
  ["a setting of LoRA", create, "/lora/lora_alpha", "lora.lora_alpha: unknown", "--lora lora_alpha: unknown"],
  [
    "code that is missing",
    create,
    "/code_artifact_id",
    "code_artifact_id: is missing: upload the code with POST /v1/code_artifacts",
    "--code: is missing: give an archive with --code FILE.tar.gz",
  ],
  [
    "a field that only --file can set",
    create,
    "/metadata",
    "metadata: must be an object",
    "metadata: must be an object",
  ],
  ["a parameter of a query", list, "/status", 'status: must be one of "queued"', '--status: must be one of "queued"'],
  [
    "another field in the sentence",
    deploy,
    "/min_replicas",
    "min_replicas: must not be greater than max_replicas",
    "--min-replicas: must not be greater than --max-replicas",
  ],
  [
    "a unit in the name",
    deploy,
    "/idle_timeout_seconds",
    "idle_timeout_seconds: must be at least 1",
    "--idle-timeout: must be at least 1",
  ],
  ["a positional argument", deploy, "/model", "model: is required: send a text", "model: is required"],
  [
    "a route with an id",
    deploy,
    null,
    "Deployment q is stopped: start it with POST /v1/deployments/dep_01/start",
    "Deployment q is stopped: start it with `verk deployments start dep_01`",
  ],
  [
    "two routes",
    create,
    "/base_model",
    '/base_model: No model "x": see GET /v1/models, or download one with POST /v1/models/pull',
    '--model: No model "x": see `verk models list`, or download one with `verk models pull OWNER/REPO`',
  ],
  [
    "a route with a query",
    deploy,
    "/checkpoint",
    "checkpoint: make one with GET /v1/training_jobs/job_1/model?variant=merged&checkpoint=ckpt_2, then deploy that model",
    "checkpoint: make one with `verk jobs model job_1 --variant merged --checkpoint ckpt_2`, then deploy that model",
  ],
  [
    "a list with a query",
    deploy,
    null,
    "No model x: GET /v1/models?registry=true lists them",
    "No model x: `verk models list` lists them",
  ],
  [
    "a name that is taken",
    others.import,
    null,
    "A model named x exists: choose another name, or replace it",
    "A model named x exists: choose another with --name, or replace it with --replace",
  ],
  [
    "a list",
    others.webhook,
    "/event_types/0",
    'event_types.0: must be one of "job.failed"',
    '--event: must be one of "job.failed"',
  ],
  ["an argument, not the flag of the server", others.webhook, "/url", "url: loopback", "url: loopback"],
  [
    "a number of seconds",
    others.session,
    "/timeout_seconds",
    "timeout_seconds: must be at least 10",
    "--timeout: must be at least 10",
  ],
  [
    "rows",
    others.dataset,
    "/auto_snapshot_rows",
    "auto_snapshot_rows: must be at least 1",
    "--auto-snapshot: must be at least 1",
  ],
];

test.each(CASES)("F23 an error of the API names the flag or the command: %s", (_, spec, param, message, words) => {
  expect(inCliWords({ message, param }, spec)).toBe(words);
});

const SRC = resolve(import.meta.dir, "../..");
const sources = (folder: string) =>
  readdirSync(join(SRC, folder), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts"))
    .map((path) => ({ path: `${folder}/${path}`, text: readFileSync(join(SRC, folder, path), "utf8") }));
const METHOD = /\b(GET|POST|PUT|PATCH|DELETE) \//;
/** A route by itself is a key of a table, not a sentence. */
const IS_ROUTE = /^[A-Z]+ \S+$/;
/** Texts in quotes or backticks, without comments. An expression in a template stands for an id. */
const textsOf = (source: string) =>
  [...source.replaceAll(/^\s*(\/?\*|\/\/).*$/gm, "").matchAll(/"([^"\n]*)"|`([^`]*)`/g)].map(
    ([, plain, template]) => plain ?? template?.replaceAll(/\$\{[^}]*\}/g, "some_id") ?? "",
  );

/** Messages that no command can get, or that have no command of their own yet. */
const ONLY_IN_THE_API = [
  "settings/integrations/tracker",
  "/regions",
  "/resolutions",
  "/code_artifacts",
  "/v1/config",
  "/hub_pushes",
  "/v1/rollouts",
  "/v1/messages",
  "/responses/compact",
  "/responses with conversation",
  "/traces/conversations",
  "/v1/secrets",
  "/v1/sessions",
  "/traces/facets",
  "GET /v1/chat/completions",
];

test("F23 every message of the API that names a route has words for the command line", () => {
  const named = ["resources", "http", "lib", "sandbox", "workers"]
    .flatMap(sources)
    .flatMap(({ text }) =>
      textsOf(text).filter((each) => METHOD.test(each) && each.includes("/v1/") && !IS_ROUTE.test(each)),
    );
  expect(named.length).toBeGreaterThan(15);
  const words = named.map((message) => [message, inCliWords({ message, param: null }, { flags: {} })] as const);
  expect(words.filter(([, spoken]) => /\/v1\//.test(spoken) || METHOD.test(spoken))).toEqual([]);
  const unknown = words.filter(([, spoken]) => spoken.includes("the API (see "));
  expect(unknown.filter(([message]) => !ONLY_IN_THE_API.some((route) => message.includes(route)))).toEqual([]);
});

test("F23 no text of the command line names a route", () => {
  const ROUTE_TABLE = "cli/text/api_words.ts";
  const strays = sources("cli")
    .filter(({ path }) => path !== ROUTE_TABLE && !path.startsWith("cli/demo/"))
    .flatMap(({ path, text }) =>
      textsOf(text)
        .filter((each) => METHOD.test(each))
        .map((each) => `${path}: ${each}`),
    );
  expect(strays).toEqual([]);
});
