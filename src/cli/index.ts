import { AppError, UsageError } from "../lib/errors.ts";
import { nearest } from "../lib/text/nearest.ts";
import { StorageError } from "../platform/files.ts";
import { type Command, EXIT, type Group, isGroup, parse } from "./args.ts";
import { ApiError } from "./client.ts";
import { COMMANDS } from "./command_table.ts";
import { note, print } from "./output.ts";
import { inCliWords } from "./text/api_words.ts";
import { helpOf, overview } from "./text/help.ts";

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
  const match = descend(row.name, await row.load(), path.slice(1), asksHelp);
  if (asksHelp || match.wantsHelp) {
    print(helpOf(match.name, match.entry).trimEnd());
    return EXIT.ok;
  }
  if (isGroup(match.entry)) {
    const names = Object.keys(match.entry.subcommands).join(", ");
    throw new UsageError(`${match.name}: name a command: ${names}. See \`verk help ${match.name}\`.`);
  }
  const { values, positionals } = parse(match.name, match.entry, match.argv);
  // parse() gave each flag its type
  return report(match.entry, values["verbose"] === true, (spec) => spec.run(values as never, ...positionals));
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
    const place = error instanceof ApiError ? error.place : undefined;
    note(`verk: ${inCliWords({ message: error.message, param, place }, spec)}${origin}`);
    return EXIT.failed;
  }
}

/** The request id finds the cause of a failure in the log of the server. */
function originOf({ status, code, requestId }: ApiError, verbose: boolean): string {
  const request = requestId === null ? [] : [`request ${requestId}`];
  const facts = verbose && status > 0 ? [code ?? "error", status, ...request] : status >= 500 ? request : [];
  return facts.length === 0 ? "" : ` (${facts.join(", ")})`;
}
