import { UsageError } from "../../lib/errors.ts";
import { type Command, command, EXIT, type Group } from "../args.ts";
import type { Client } from "../client.ts";
import { loadCommands } from "../command_table.ts";
import { existingConnection } from "../connect.ts";
import { print } from "../output.ts";
import { bashScript, fishScript, zshScript } from "../text/completion.ts";
import { VALUE_KINDS, type ValueKind } from "../text/value_kinds.ts";

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;

type Item = { id: string; name?: string; output_name?: string };
type Source = { path: string; of: (item: Item) => string | undefined };

const named = (path: string): Source => ({ path, of: ({ name }) => name });
const numbered = (path: string): Source => ({ path, of: ({ id }) => id });
const JOBS: Source = { path: "/v1/training_jobs", of: ({ output_name }) => output_name };

/** The names of each kind are those that the commands take. */
const SOURCES: Readonly<Record<ValueKind, readonly Source[]>> = {
  agents: [named("/v1/agents")],
  deployments: [named("/v1/deployments")],
  datasets: [named("/v1/datasets")],
  evaluators: [named("/v1/evaluators")],
  experiments: [named("/v1/experiments")],
  jobs: [JOBS],
  models: [named("/v1/models?registry=true")],
  monitors: [named("/v1/monitors")],
  queues: [named("/v1/annotation_queues")],
  regions: [named("/v1/regions")],
  rewards: [named("/v1/reward_functions")],
  sessions: [numbered("/v1/sessions")],
  volumes: [named("/v1/volumes")],
  webhooks: [numbered("/v1/webhooks")],
};

const PATIENCE_MS = 2_000; // a person waits at the prompt
const MOST = 100;

async function namesOf(client: Client, { path, of }: Source): Promise<string[]> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const query = `${path}${path.includes("?") ? "&" : "?"}limit=${MOST}`;
  const { body } = await client.call<{ data: Item[] }>("GET", query, undefined, { signal });
  return body.data.flatMap((item) => of(item) ?? []);
}

/** A shell may expand what it completes, so a name with other characters is left out. */
const isPlain = (name: string) => /^[\w@][\w./:@-]*$/.test(name);

/** Names of the server for the shell. Without a server, or without a key, it prints nothing: a shell shows no errors here. */
const values = command({
  summary: "Print the names of one kind on the server, for the scripts",
  takes: ["kind"],
  flags: {},
  examples: ["verk completion values models"],
  async run(_, kind = "") {
    const kinds = Object.values(VALUE_KINDS);
    const sources = kinds.includes(kind as ValueKind) ? SOURCES[kind as ValueKind] : undefined;
    if (!sources) throw new UsageError(`completion values: expected ${kinds.join(", ")}, not ${JSON.stringify(kind)}`);
    const lists = await Promise.all(
      sources.map(async (source) => await namesOf(existingConnection().client, source)),
    ).catch(() => []);
    const names = [...new Set(lists.flat())].filter(isPlain).sort();
    if (names.length > 0) print(names.join("\n"));
    return EXIT.ok;
  },
});

const script = (shell: keyof typeof SCRIPTS, example: string): Command =>
  command({
    summary: `Print the completion script for ${shell}`,
    flags: {},
    examples: [`verk completion ${shell} > ${example}`],
    async run() {
      print(SCRIPTS[shell](await loadCommands()).trimEnd());
      return EXIT.ok;
    },
  });

export const completion: Group = {
  summary: "Print a completion script for bash, zsh or fish: source <(verk completion bash)",
  subcommands: {
    bash: script("bash", "~/.local/share/bash-completion/completions/verk"),
    zsh: script("zsh", "~/.zfunc/_verk"),
    fish: script("fish", "~/.config/fish/completions/verk.fish"),
    values,
  },
};
