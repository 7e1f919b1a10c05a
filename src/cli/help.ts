import { type Command, EXIT, type Flags, type Group, isGroup } from "./args.ts";
import { columns } from "./output.ts";

const EXIT_DOCS: [code: number, meaning: string][] = [
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
${indented(commands.map(({ name, summary }) => [name, summary]))}

\`verk help <command>\` or \`verk <command> --help\` explains a command.

Exit codes:
${exitTable({})}
`;
}

export const helpOf = (name: string, entry: Command | Group): string =>
  isGroup(entry) ? groupHelp(name, entry) : commandHelp(name, entry);

function groupHelp(name: string, group: Group): string {
  const { otherwise } = group;
  const each: [sub: string, Command][] = Object.entries(group.subcommands);
  if (otherwise) each.unshift([otherwise.takes?.join(" ") ?? "", otherwise]);
  const called = (sub: string, spec: Command) => (spec === otherwise ? name : `${name} ${sub}`);
  return `${group.summary}

Usage:
${each.map(([sub, spec]) => `  ${usage(called(sub, spec), spec)}`).join("\n")}

Commands:
${indented(each.map(([sub, { summary }]) => [sub, summary]))}

Flags:
${flagTable(Object.assign({}, ...each.map(([, spec]) => spec.flags)))}
${examples(each.flatMap(([, spec]) => spec.examples))}
Exit codes:
${exitTable(Object.assign({}, ...each.map(([, spec]) => spec.exits)))}
`;
}

function commandHelp(name: string, spec: Command): string {
  return `${spec.summary}

Usage: ${usage(name, spec)}

Flags:
${flagTable(spec.flags)}
${examples(spec.examples)}
Exit codes:
${exitTable(spec.exits ?? {})}
`;
}

function usage(name: string, { takes = [], flags }: Command): string {
  const shown = Object.entries(flags).map(([flag, { value, multiple, type }]) => {
    const text = type === "boolean" ? `--${flag}` : `--${flag} ${value ?? "VALUE"}`;
    return `[${text}]${multiple ? "…" : ""}`;
  });
  return [
    "verk",
    name,
    ...takes.map((each) => (each.endsWith("?") ? `[${each.slice(0, -1)}]` : `<${each}>`)),
    ...shown,
  ].join(" ");
}

const flagTable = (flags: Flags) =>
  indented([
    ...Object.entries(flags).map(([flag, { value, short, doc }]): [string, string] => [
      `${short ? `-${short}, ` : ""}--${flag}${value ? ` ${value}` : ""}`,
      doc,
    ]),
    ["--help", "Print this help"],
  ]);

const examples = (lines: readonly string[]) =>
  lines.length === 0 ? "" : `\nExamples:\n${lines.map((line) => `  ${line}\n`).join("")}`;

/** The exit codes that all commands share, overridden and extended by the codes of this command. */
const exitTable = (own: Readonly<Record<number, string>>) =>
  indented(Object.entries({ ...Object.fromEntries(EXIT_DOCS), ...own }));

const indented = (rows: (readonly string[])[]) =>
  columns(rows)
    .map((line) => `  ${line}`)
    .join("\n");
