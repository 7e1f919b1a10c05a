import { type Command, EXIT, type Flags, type Group, isGroup } from "../args.ts";

/** No line of a help page is wider. */
const WIDTH = 100;

export const EXIT_DOCS: [code: number, meaning: string][] = [
  [EXIT.ok, "success"],
  [EXIT.failed, "failed"],
  [EXIT.usage, "wrong flags, configuration or data directory"],
  [EXIT.held, "a running server holds the data directory"],
  [EXIT.schema, "the database was written by another version of verk"],
  [EXIT.check, "a check failed (doctor, config check)"],
];

export type Entry = { name: string; summary: string };

export function overview(commands: readonly Entry[]): string {
  return `verk: a post-training and inference platform in one executable

Usage: verk <command> [flags]

Commands:
${table(commands.map(({ name, summary }) => [name, summary]))}

\`verk help <command>\` or \`verk <command> --help\` explains a command.

Exit codes:
${table(EXIT_DOCS.map(([code, meaning]) => [String(code), meaning]))}
`;
}

export const helpOf = (name: string, entry: Command | Group): string =>
  isGroup(entry) ? groupHelp(name, entry) : commandHelp(name, entry);

/** A group shows its commands. Their flags and exit codes are in the help of each one. */
function groupHelp(name: string, group: Group): string {
  const otherwise = group.otherwise;
  const each = Object.entries(group.subcommands);
  const firstExamples = each.flatMap(([, { examples }]) => examples.slice(0, 1));
  return `${paragraph(group.summary)}

Usage:
${otherwise ? `${usage(name, otherwise)}\n` : ""}${wrapped(["verk", name, "<command>", "[flags]"])}

Commands:
${table(each.map(([sub, { takes = [], summary }]) => [[sub, ...takes.map(argument)].join(" "), summary]))}

\`verk help ${name} <command>\` explains a command, with its flags and exit codes.
${otherwise ? `\nFlags of verk ${name} ${(otherwise.takes ?? []).map(argument).join(" ")}:\n${flagTable(otherwise.flags)}\n` : ""}${examples([...(otherwise?.examples ?? []), ...firstExamples])}${otherwise ? `\nExit codes:\n${exitTable(otherwise)}\n` : ""}`;
}

const commandHelp = (name: string, spec: Command): string => `${paragraph(spec.summary)}

Usage:
${usage(name, spec)}

Flags:
${flagTable(spec.flags)}
${examples(spec.examples)}
Exit codes:
${exitTable(spec)}
`;

export const argument = (name: string) => (name.endsWith("?") ? `[${name.slice(0, -1)}]` : `<${name}>`);

const usage = (name: string, spec: Command) => wrapped(usageWords(name, spec));

export function usageWords(name: string, { takes = [], flags }: Command): string[] {
  const shown = Object.entries(flags).map(([flag, { value, multiple, type }]) => {
    const text = type === "boolean" ? `--${flag}` : `--${flag} ${value ?? "VALUE"}`;
    return `[${text}]${multiple ? "…" : ""}`;
  });
  return ["verk", name, ...takes.map(argument), ...shown];
}

const flagTable = (flags: Flags) =>
  table([
    ...Object.entries(flags).map(([flag, { value, short, doc }]): [string, string] => [
      `${short ? `-${short}, ` : ""}--${flag}${value ? ` ${value}` : ""}`,
      doc,
    ]),
    ["--help", "Print this help"],
  ]);

const examples = (lines: readonly string[]) =>
  lines.length === 0 ? "" : `\nExamples:\n${lines.map((line) => `  ${line}\n`).join("")}`;

const exitTable = (spec: Command) => table(exitsOf(spec));

/** Only a command that opens the data directory itself can find it in use or with another schema. */
export function exitsOf({ flags, exits = {} }: Command): [code: string, meaning: string][] {
  const opensData = "data" in flags && !("url" in flags);
  const shared = EXIT_DOCS.filter(([code]) => code <= EXIT.usage || (opensData && code !== EXIT.check));
  return Object.entries({ ...Object.fromEntries(shared), ...exits });
}

/** Two columns. The second one is wrapped below itself. */
function table(rows: readonly (readonly [left: string, right: string])[]): string {
  const left = Math.min(36, Math.max(...rows.map(([cell]) => Bun.stringWidth(cell))));
  return rows
    .map(([cell, text]) => {
      const [first = "", ...more] = lines(text.split(" "), WIDTH - left - 4);
      const gap = " ".repeat(Math.max(0, left - Bun.stringWidth(cell)));
      const below = " ".repeat(left + 4);
      const isLong = Bun.stringWidth(cell) > left;
      const head = isLong ? [`  ${cell}`, `${below}${first}`] : [`  ${cell}${gap}  ${first}`];
      return [...head, ...more.map((line) => `${below}${line}`)].join("\n");
    })
    .join("\n");
}

/** A usage line. What does not fit stands below, indented. */
const wrapped = (words: readonly string[]) => `  ${lines(words, WIDTH - 6).join("\n      ")}`;

const paragraph = (text: string) => lines(text.split(" "), WIDTH).join("\n");

/** Joins words to lines of at most `width` columns. */
export function lines(words: readonly string[], width: number): string[] {
  const rows: string[] = [];
  for (const word of words) {
    const last = rows.at(-1);
    const longer = last === undefined ? word : `${last} ${word}`;
    if (last === undefined || Bun.stringWidth(longer) > width) rows.push(word);
    else rows[rows.length - 1] = longer;
  }
  return rows;
}
