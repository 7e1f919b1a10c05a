import { VERSION } from "../../lib/version.ts";
import { command, EXIT } from "../args.ts";
import { loadCommands } from "../command_table.ts";
import { print } from "../output.ts";
import { manPage } from "../text/man.ts";

export const man = command({
  summary: "Print the manual page verk(1), for man and for a folder of manual pages",
  flags: {},
  examples: ["verk man | man -l -", "verk man > ~/.local/share/man/man1/verk.1 && man verk"],
  async run() {
    print(
      manPage({
        commands: await loadCommands(),
        version: VERSION,
        date: new Date().toISOString().slice(0, 10),
      }).trimEnd(),
    );
    return EXIT.ok;
  },
});
