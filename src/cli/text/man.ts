/** The manual page verk(1), written from the same table of commands as the help pages. */
import { type Command, isGroup } from "../args.ts";
import type { Named } from "./completion.ts";
import { EXIT_DOCS, exitsOf, usageWords } from "./help.ts";

export type ManOptions = { commands: readonly Named[]; version: string; date: string };

/** Text of a person as roff: a line that begins with a dot or an apostrophe would be an instruction. */
export const roff = (text: string) =>
  text
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replaceAll("`", "\\`")
    .replaceAll("^", "\\(ha")
    .replaceAll("~", "\\(ti")
    .replace(/^([.'])/gm, "\\&$1");

const bold = (text: string) => `\\fB${roff(text)}\\fR`;
const item = (head: string, text: string) => `.TP\n${head}\n${roff(text)}`;

/** Lines that keep their breaks. They are not filled, so that a reader can copy them. */
const verbatim = (lines: readonly string[]) => [".RS 4", ".nf", ...lines.map(roff), ".fi", ".RE"].join("\n");

const flagItems = ({ flags }: Command) =>
  Object.entries(flags).map(([flag, { short, value, doc }]) => {
    const names = `${short ? `${bold(`-${short}`)}, ` : ""}${bold(`--${flag}`)}`;
    return item(value ? `${names} \\fI${roff(value)}\\fR` : names, doc);
  });

/** Only the exit codes that differ from the common table. */
function ownExits(spec: Command): string[] {
  const common = new Map(EXIT_DOCS.map(([code, meaning]) => [String(code), meaning]));
  const own = exitsOf(spec).filter(([code, meaning]) => common.get(code) !== meaning);
  if (own.length === 0) return [];
  return [".PP", "Exit codes:", ...own.map(([code, meaning]) => item(bold(code), meaning))];
}

/** Usage lines are filled and ragged, each group of words in one piece. */
const usage = (name: string, spec: Command) => {
  const [program = "", command = "", ...rest] = usageWords(name, spec);
  const words = rest.map((word) => roff(word).replaceAll(" ", "\\ "));
  return [".PP", ".ad l", ".nh", [bold(`${program} ${command}`), ...words].join(" "), ".hy", ".ad b"];
};

const commandPart = (name: string, spec: Command): string[] => [
  `.SS "verk ${roff(name)}"`,
  roff(spec.summary),
  ...usage(name, spec),
  ...flagItems(spec),
  ...(spec.examples.length === 0 ? [] : [".PP", "Examples:", verbatim(spec.examples)]),
  ...ownExits(spec),
];

function entryPart({ name, entry }: Named): string[] {
  if (!isGroup(entry)) return commandPart(name, entry);
  const own = entry.otherwise ? commandPart(name, entry.otherwise) : [];
  return [...own, ...Object.entries(entry.subcommands).flatMap(([sub, spec]) => commandPart(`${name} ${sub}`, spec))];
}

export function manPage({ commands, version, date }: ManOptions): string {
  const parts = [
    `.TH VERK 1 "${date}" "verk ${version}" "User Commands"`,
    ".SH NAME",
    "verk \\- post\\-training and inference platform in one executable",
    ".SH SYNOPSIS",
    `${bold("verk")} \\fIcommand\\fR [\\fIflags\\fR]`,
    ".PP",
    `${bold("verk help")} [\\fIcommand\\fR]`,
    ".SH DESCRIPTION",
    roff("Verk trains language models, serves them, and evaluates the results."),
    roff("The command verk serve runs the server. Most other commands are clients of that server."),
    roff("Each command also takes --help."),
    ".SH COMMANDS",
    ...commands.map(({ name, summary }) => item(bold(name), summary)),
    ".SH DETAILS",
    ...commands.flatMap(entryPart),
    ".SH EXIT STATUS",
    ...EXIT_DOCS.map(([code, meaning]) => item(bold(String(code)), meaning)),
    ".SH FILES",
    item(bold("/etc/verk/config.toml"), "Settings. The command verk config default prints all of them."),
    item(bold("/var/lib/verk"), "The data directory of the service."),
    ".SH SEE ALSO",
    `\\fBsystemctl\\fR(1), \\fBjournalctl\\fR(1)`,
  ];
  return `${parts.join("\n")}\n`;
}
