/** Completion scripts for shells, written from the table of commands. */
import type { Command, Flag, Flags, Group } from "../args.ts";
import { isGroup } from "../args.ts";
import { VALUE_KINDS, type ValueKind } from "./value_kinds.ts";

export type Named = { name: string; summary: string; entry: Command | Group };

/** The values that may stand somewhere: fixed words, or a kind of names that only the server knows. */
type Values = readonly string[] | ValueKind;

const flagsOf = (flags: Flags) => [...Object.keys(flags).map((flag) => `--${flag}`), "--help"];

const kindOf = (word: string): ValueKind | undefined =>
  Object.hasOwn(VALUE_KINDS, word) ? VALUE_KINDS[word as keyof typeof VALUE_KINDS] : undefined;

/** `MODEL`, or `FILE|DATASET`: one of the alternatives is a kind. */
function valuesOfFlag({ choices, value = "" }: Flag): Values | undefined {
  if (choices) return choices;
  const kinds = value.split(/[|=[]/).map((word) => kindOf(word.toLowerCase()));
  return kinds.find((kind) => kind !== undefined);
}

/** Values of the first argument. Further ones of a list (`job…`) are of the same kind. */
const valuesOfArgument = ({ takes: [first = ""] = [] }: Command): ValueKind | undefined =>
  kindOf(first.replace(/[?…]$/, ""));

/** Each command and subcommand by its path of words: "" → the program, " jobs" → the group, " jobs list". */
function specs(commands: readonly Named[]): [path: string, spec: Command][] {
  return commands.flatMap(({ name, entry }): [string, Command][] => {
    if (!isGroup(entry)) return [[` ${name}`, entry]];
    const subs = Object.entries(entry.subcommands).map(([sub, spec]): [string, Command] => [` ${name} ${sub}`, spec]);
    return entry.otherwise ? [[` ${name}`, entry.otherwise], ...subs] : subs;
  });
}

/** For each path, the words that may follow: commands, subcommands and flags. */
function choices(commands: readonly Named[]): [path: string, words: string[]][] {
  const inside = ({ name, entry }: Named): [string, string[]][] => {
    if (!isGroup(entry)) return [[` ${name}`, flagsOf(entry.flags)]];
    const subs = Object.entries(entry.subcommands);
    const ownFlags = entry.otherwise ? flagsOf(entry.otherwise.flags) : ["--help"];
    return [
      [` ${name}`, [...subs.map(([sub]) => sub), ...ownFlags]],
      ...subs.map(([sub, spec]): [string, string[]] => [` ${name} ${sub}`, flagsOf(spec.flags)]),
    ];
  };
  const names = commands.map(({ name }) => name);
  return [["", [...names, "help"]], [" help", names], ...commands.flatMap(inside)];
}

/** The values of each flag (`" jobs list --status"`) and of each argument (`" jobs get"`). */
function values(commands: readonly Named[]): [place: string, values: Values][] {
  return specs(commands).flatMap(([path, spec]) => {
    const ofFlags = Object.entries(spec.flags).map(
      ([flag, each]) => [`${path} --${flag}`, valuesOfFlag(each)] as const,
    );
    return [...ofFlags, [path, valuesOfArgument(spec)] as const].flatMap(([place, each]): [string, Values][] =>
      each === undefined ? [] : [[place, each]],
    );
  });
}

const cases = (rows: readonly (readonly [place: string, line: string])[]) =>
  rows.map(([place, line]) => `    "${place}") ${line} ;;`).join("\n");

/** Fixed words stand in single quotes: the shell must not expand `*`. */
const wordsLine = (words: readonly string[]) => `printf '%s\n' ${words.map((word) => `'${word}'`).join(" ")}`;

/**
 * A word that is no flag and no choice, such as a file name, does not change the path. Names of the server are compared
 * as text and never expanded. The shell completes files where nothing fits.
 */
export const bashScript = (commands: readonly Named[]) => `# verk completion for bash
_verk_words() {
  case "$1" in
${cases(choices(commands).map(([path, words]) => [path, wordsLine(words)]))}
  esac
}
_verk_values() {
  case "$1" in
${cases(values(commands).map(([place, each]) => [place, typeof each === "string" ? `"$2" completion values ${each} 2>/dev/null` : wordsLine(each)]))}
  esac
}
_verk() {
  local current=\${COMP_WORDS[COMP_CWORD]} path="" previous="" word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    [ "$word" = "=" ] || previous=$word
    case "$word" in -*) continue ;; esac
    if [ -n "$(_verk_words "$path $word")" ]; then path="$path $word"; fi
  done
  [ "$current" = "=" ] && current=""
  COMPREPLY=()
  while IFS= read -r word; do
    case "$word" in "$current"*) COMPREPLY+=("$word") ;; esac
  done < <(
    case "$previous" in --*) _verk_values "$path $previous" "\${COMP_WORDS[0]}" | grep . && exit ;; esac
    _verk_words "$path"
    case "$current" in -*) ;; *) _verk_values "$path" "\${COMP_WORDS[0]}" ;; esac
  )
}
complete -o default -F _verk verk
`;

/** zsh runs the functions of bash. */
export const zshScript = (commands: readonly Named[]) =>
  `#compdef verk
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
${bashScript(commands)}`;

const quoted = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;

/** fish runs the substitution when the key is pressed. */
const fishValues = (each: Values | undefined) =>
  each === undefined
    ? ""
    : ` -a ${quoted(typeof each === "string" ? `(verk completion values ${each} 2>/dev/null)` : each.join(" "))}`;

export function fishScript(commands: readonly Named[]): string {
  const offer = (when: string, what: string, doc: string) =>
    `complete -c verk -n ${quoted(when)} ${what} -d ${quoted(doc)}`;
  const flagLines = (when: string, flags: Flags) =>
    Object.entries(flags).map(([flag, spec]) => {
      const { type, short, doc } = spec;
      const argument = type === "string" ? ` -r${fishValues(valuesOfFlag(spec))}` : "";
      return offer(when, `-l ${flag}${short ? ` -s ${short}` : ""}${argument}`, doc);
    });
  const argumentLines = (when: string, spec: Command) => {
    const each = valuesOfArgument(spec);
    return each === undefined ? [] : [`complete -c verk -n ${quoted(when)}${fishValues(each)}`];
  };
  const specLines = (when: string, spec: Command) => [...argumentLines(when, spec), ...flagLines(when, spec.flags)];
  const lines = commands.flatMap(({ name, summary, entry }) => {
    const top = offer("__fish_use_subcommand", `-a ${name}`, summary);
    const seen = `__fish_seen_subcommand_from ${name}`;
    if (!isGroup(entry)) return [top, ...specLines(seen, entry)];
    const subs = Object.entries(entry.subcommands);
    const none = `${seen}; and not __fish_seen_subcommand_from ${subs.map(([sub]) => sub).join(" ")}`;
    return [
      top,
      ...subs.map(([sub, spec]) => offer(none, `-a ${sub}`, spec.summary)),
      ...(entry.otherwise ? specLines(none, entry.otherwise) : []),
      ...subs.flatMap(([sub, spec]) => specLines(`${seen}; and __fish_seen_subcommand_from ${sub}`, spec)),
    ];
  });
  return `# verk completion for fish\n${lines.join("\n")}\n`;
}
