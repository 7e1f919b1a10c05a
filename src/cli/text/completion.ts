/** Completion scripts for shells, written from the table of commands. */
import type { Command, Flags, Group } from "../args.ts";
import { isGroup } from "../args.ts";

export type Named = { name: string; summary: string; entry: Command | Group };

const flagsOf = (flags: Flags) => [...Object.keys(flags).map((flag) => `--${flag}`), "--help"];

/** For each path of words, the words that may follow: "" → commands, " jobs" → subcommands, " jobs list" → flags. */
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

/** A word that is no flag and no choice, such as a file name, does not change the path. */
export const bashScript = (commands: readonly Named[]) => `# verk completion for bash
_verk_words() {
  case "$1" in
${choices(commands)
  .map(([path, words]) => `    "${path}") echo "${words.join(" ")}" ;;`)
  .join("\n")}
  esac
}
_verk() {
  local current=\${COMP_WORDS[COMP_CWORD]} path="" word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    case "$word" in -*) continue ;; esac
    if [ -n "$(_verk_words "$path $word")" ]; then path="$path $word"; fi
  done
  COMPREPLY=()
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$(_verk_words "$path")" -- "$current")
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

export function fishScript(commands: readonly Named[]): string {
  const offer = (when: string, what: string, doc: string) =>
    `complete -c verk -n ${quoted(when)} ${what} -d ${quoted(doc)}`;
  const flagLines = (when: string, flags: Flags) =>
    Object.entries(flags).map(([flag, { type, short, doc }]) =>
      offer(when, `-l ${flag}${short ? ` -s ${short}` : ""}${type === "string" ? " -r" : ""}`, doc),
    );
  const lines = commands.flatMap(({ name, summary, entry }) => {
    const top = offer("__fish_use_subcommand", `-a ${name}`, summary);
    const seen = `__fish_seen_subcommand_from ${name}`;
    if (!isGroup(entry)) return [top, ...flagLines(seen, entry.flags)];
    const subs = Object.entries(entry.subcommands);
    const none = `${seen}; and not __fish_seen_subcommand_from ${subs.map(([sub]) => sub).join(" ")}`;
    return [
      top,
      ...subs.map(([sub, spec]) => offer(none, `-a ${sub}`, spec.summary)),
      ...(entry.otherwise ? flagLines(none, entry.otherwise.flags) : []),
      ...subs.flatMap(([sub, spec]) => flagLines(`${seen}; and __fish_seen_subcommand_from ${sub}`, spec.flags)),
    ];
  });
  return `# verk completion for fish\n${lines.join("\n")}\n`;
}
