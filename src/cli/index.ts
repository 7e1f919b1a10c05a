import { AppError, UsageError } from "../lib/errors.ts";
import { nearest } from "../lib/text/nearest.ts";
import { StorageError } from "../platform/files.ts";
import { inCliWords } from "./api_words.ts";
import { type Command, EXIT, type Group, isGroup, parse } from "./args.ts";
import { ApiError } from "./client.ts";
import { helpOf, overview } from "./help.ts";
import { note, print } from "./output.ts";

type Row = { name: string; summary: string; load: () => Promise<Command | Group> };

/** Every command. A command is loaded only when it runs, so that `verk keys` does not load the server. */
const COMMANDS: readonly Row[] = [
  { name: "serve", summary: "Run the server", load: async () => (await import("./commands/serve.ts")).serve },
  { name: "deploy", summary: "Serve a model", load: async () => (await import("./commands/deploy.ts")).deploy },
  {
    name: "deployments",
    summary: "List, show, stop and start deployments",
    load: async () => (await import("./commands/manage/deployments.ts")).deployments,
  },
  { name: "chat", summary: "Chat with a deployment", load: async () => (await import("./commands/chat.ts")).chat },
  {
    name: "models",
    summary: "List, import and pull models",
    load: async () => (await import("./commands/manage/models.ts")).models,
  },
  {
    name: "jobs",
    summary: "Train models: start, watch and control training jobs",
    load: async () => (await import("./commands/manage/jobs.ts")).jobs,
  },
  {
    name: "datasets",
    summary: "Push, pull, append to and snapshot datasets",
    load: async () => (await import("./commands/manage/datasets.ts")).datasets,
  },
  {
    name: "volumes",
    summary: "Store files on the server; copy them in and out",
    load: async () => (await import("./commands/manage/volumes.ts")).volumes,
  },
  {
    name: "rewards",
    summary: "Test reward code on this machine; push and list reward functions",
    load: async () => (await import("./commands/manage/rewards.ts")).rewards,
  },
  {
    name: "sessions",
    summary: "Run commands in sandboxes on the server",
    load: async () => (await import("./commands/manage/sessions.ts")).sessions,
  },
  {
    name: "detect",
    summary: "Detect generated images and speech; evaluate the detector on your own files",
    load: async () => (await import("./commands/detect.ts")).detect,
  },
  {
    name: "webhooks",
    summary: "Manage webhooks; test a receiver",
    load: async () => (await import("./commands/manage/webhooks.ts")).webhooks,
  },
  {
    name: "keys",
    summary: "Create, list and revoke API keys",
    load: async () => (await import("./commands/manage/keys.ts")).keys,
  },
  {
    name: "workspaces",
    summary: "Create, list, suspend, resume and delete workspaces",
    load: async () => (await import("./commands/manage/workspaces.ts")).workspaces,
  },
  {
    name: "credits",
    summary: "Show and grant the credit of a workspace",
    load: async () => (await import("./commands/manage/credits.ts")).credits,
  },
  {
    name: "config",
    summary: "Print and check the configuration; print the defaults",
    load: async () => (await import("./commands/config.ts")).config,
  },
  {
    name: "doctor",
    summary: "Check this machine and the data directory",
    load: async () => (await import("./commands/doctor.ts")).doctor,
  },
  {
    name: "demo",
    summary: "Try all features on a temporary server",
    load: async () => (await import("./commands/demo.ts")).demo,
  },
  { name: "version", summary: "Print the version", load: async () => (await import("./commands/version.ts")).version },
];

/** Returns the exit code. Wrong usage is thrown as a UsageError. */
export async function run(argv: readonly string[]): Promise<number> {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    process.exit(EXIT.ok); // the reader closed the pipe: `verk config print | head`
  });
  const [name, ...rest] = argv;
  if (name === undefined || name === "--help" || name === "-h" || (name === "help" && rest.length === 0)) {
    print(overview(COMMANDS).trimEnd());
    return EXIT.ok;
  }
  const asksHelp = name === "help";
  const path = asksHelp ? rest : argv;
  const row =
    COMMANDS.find((each) => each.name === path[0]) ??
    unknownCommand(
      path[0] ?? "",
      COMMANDS.map((each) => each.name),
    );
  const found = descend(row.name, await row.load(), path.slice(1), asksHelp);
  if (asksHelp || found.wantsHelp) {
    print(helpOf(found.name, found.entry).trimEnd());
    return EXIT.ok;
  }
  if (isGroup(found.entry)) {
    const names = Object.keys(found.entry.subcommands).join(", ");
    throw new UsageError(`${found.name}: name a command: ${names}. See \`verk help ${found.name}\`.`);
  }
  const { values, positionals } = parse(found.name, found.entry, found.argv);
  // parse() gave each flag its type
  return report(found.entry, values["verbose"] === true, (spec) => spec.run(values as never, ...positionals));
}

type Match = { name: string; entry: Command | Group; argv: readonly string[]; wantsHelp: boolean };

function descend(name: string, entry: Command | Group, argv: readonly string[], asksHelp: boolean): Match {
  const end = argv.indexOf("--");
  const wantsHelp = argv.slice(0, end < 0 ? undefined : end).some((each) => each === "--help" || each === "-h");
  const [sub] = argv;
  if (!isGroup(entry)) return { name, entry, argv, wantsHelp };
  const named = sub !== undefined && Object.hasOwn(entry.subcommands, sub) ? entry.subcommands[sub] : undefined;
  if (!named && entry.otherwise && !wantsHelp && !asksHelp) return { name, entry: entry.otherwise, argv, wantsHelp };
  if (sub === undefined || (wantsHelp && (sub.startsWith("-") || (!named && entry.otherwise))))
    return { name, entry, argv, wantsHelp };
  const inner =
    named ??
    unknownCommand(
      `${name} ${sub}`,
      Object.keys(entry.subcommands).map((each) => `${name} ${each}`),
    );
  return { name: `${name} ${sub}`, entry: inner, argv: argv.slice(1), wantsHelp: wantsHelp || asksHelp };
}

function unknownCommand(name: string, candidates: readonly string[]): never {
  const close = nearest(name, candidates);
  const hint = close ? ` Did you mean ${close}?` : "";
  throw new UsageError(`There is no command ${name}.${hint} \`verk help\` lists all commands.`);
}

/** An error of a service, of the API or of the disk is not a crash: print one line and exit with 1. */
async function report(
  spec: Command,
  verbose: boolean,
  body: (spec: Command) => Promise<number> | number,
): Promise<number> {
  try {
    return await body(spec);
  } catch (error) {
    if (!(error instanceof AppError || error instanceof StorageError || error instanceof ApiError)) throw error;
    const param = error instanceof StorageError ? undefined : error.param;
    const origin = error instanceof ApiError ? originOf(error, verbose) : "";
    note(`verk: ${inCliWords({ message: error.message, param }, spec)}${origin}`);
    return EXIT.failed;
  }
}

/** The request id finds the cause of a failure in the log of the server. */
function originOf({ status, code, requestId }: ApiError, verbose: boolean): string {
  const request = requestId === null ? [] : [`request ${requestId}`];
  const facts = verbose && status > 0 ? [code ?? "error", status, ...request] : status >= 500 ? request : [];
  return facts.length === 0 ? "" : ` (${facts.join(", ")})`;
}
