import { UsageError } from "../../lib/errors.ts";
import { command, EXIT } from "../args.ts";
import { loadCommands } from "../command_table.ts";
import { print } from "../output.ts";
import { bashScript, fishScript, zshScript } from "../text/completion.ts";

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
    print(SCRIPTS[shell as keyof typeof SCRIPTS](await loadCommands()).trimEnd());
    return EXIT.ok;
  },
});
