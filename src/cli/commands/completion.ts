import { UsageError } from "../../lib/errors.ts";
import { command, EXIT } from "../args.ts";
import { COMMANDS } from "../command_table.ts";
import { print } from "../output.ts";
import { bashScript, fishScript, type Named, zshScript } from "../text/completion.ts";

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;

export const completion = command({
  summary: "Print a completion script for bash, zsh or fish",
  takes: ["shell"],
  flags: {},
  examples: [
    "source <(verk completion bash)",
    "verk completion bash > ~/.local/share/bash-completion/completions/verk",
    "verk completion fish > ~/.config/fish/completions/verk.fish",
  ],
  async run(_, shell = "") {
    const names = Object.keys(SCRIPTS);
    if (!names.includes(shell))
      throw new UsageError(`completion: expected ${names.join(", ")}, not ${JSON.stringify(shell)}`);
    const commands: Named[] = [];
    for (const { name, summary, load } of COMMANDS) commands.push({ name, summary, entry: await load() });
    print(SCRIPTS[shell as keyof typeof SCRIPTS](commands).trimEnd());
    return EXIT.ok;
  },
});
