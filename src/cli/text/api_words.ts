/** Rewrites errors of the API for the command line: flags instead of JSON fields, commands instead of routes. */
import { type Command, JSON_FLAG, SERVER_FLAGS } from "../args.ts";

/** The parts of a command that decide how it names a field. */
export type Vocabulary = Pick<Command, "flags" | "fields" | "takes">;
/** `place` stands before the message instead of a flag, such as the line of a job file. */
type ApiMessage = { message: string; param?: string | null | undefined; place?: string | undefined };

/** Every route that a message of the API may name, and the command for it. `{id}` and real ids match alike. */
const ROUTES: readonly [route: RegExp, command: string][] = [
  [
    /GET \/v1\/training_jobs\/(\S+?)\/model\?variant=(\w+)&checkpoint=([\w{}]+)/g,
    "jobs model $1 --variant $2 --checkpoint $3",
  ],
  [/GET \/v1\/training_jobs\/([\w{}]+)\/model/g, "jobs model $1"],
  [/GET \/v1\/training_jobs\/([\w{}]+)\/logs/g, "jobs logs $1 -f"],
  [/GET \/v1\/training_jobs\/([\w{}]+)\/(checkpoints|metrics|samples)/g, "jobs $2 $1"],
  [/POST \/v1\/training_jobs\/([\w{}]+)\/cancel/g, "jobs cancel $1"],
  [/POST \/v1\/training_jobs\b/g, "jobs create"],
  [/POST \/v1\/deployments\/([\w{}]+)\/(start|stop)/g, "deployments $2 $1"],
  [/POST \/v1\/deployments\b(?!\/)/g, "deploy MODEL"],
  [/GET \/v1\/deployments\b/g, "deployments list"],
  [/POST \/v1\/chat\/completions/g, "chat DEPLOYMENT"],
  [/POST \/v1\/models\/pull/g, "models pull OWNER/REPO"],
  [/POST \/v1\/models\b/g, "models import FILE"],
  [/GET \/v1\/models\b(\?registry=true)?/g, "models list"],
  [/POST \/v1\/datasets\/([\w{}]+)\/rows/g, "datasets append $1 FILE"],
  [/POST \/v1\/datasets\/([\w{}]+)\/preview/g, "datasets preview $1 --model MODEL"],
  [/GET \/v1\/datasets\b(?!\/)/g, "datasets list"],
  [/GET \/v1\/training_jobs\b(?!\/)/g, "jobs list"],
  [/GET \/v1\/experiments\/([\w{}]+)\/items/g, "experiments show $1"],
  [/GET \/v1\/experiments\b(?!\/)/g, "experiments list"],
  [/GET \/v1\/evaluators\b(?!\/)/g, "evaluators list"],
  [/GET \/v1\/agents\b(?!\/)/g, "agents list"],
  [/GET \/v1\/monitors\b(?!\/)/g, "monitors list"],
  [/GET \/v1\/traces\?conversation_id=/g, "traces list --conversation "],
  [/GET \/v1\/traces\b(?!\/)/g, "traces list"],
  [/GET \/v1\/regions\b(?!\/)/g, "regions list"],
  [/GET \/v1\/account\b/g, "credits show"],
  [/GET \/v1\/settings\b(?!\/)/g, "config print"],
];

/** A route without a command: the reader finds it in the reference of the server. */
const OTHER_ROUTE = /\b(GET|POST|PUT|PATCH|DELETE) \/v1\/([\w/{}.-]*\w)/g;

export function inCliWords({ message, param, place }: ApiMessage, vocabulary: Vocabulary): string {
  const path = param ? param.replace(/^\//, "").split("/") : [];
  const flag = place ?? flagOf(path, vocabulary);
  const body = commandsIn(flagsIn(phrasesIn(bodyOf(message, path), vocabulary), vocabulary));
  return flag === undefined ? commandsIn(flagsIn(phrasesIn(message, vocabulary), vocabulary)) : `${flag}: ${body}`;
}

/** The message without the field that it begins with. */
function bodyOf(message: string, path: readonly string[]): string {
  for (const name of [`/${path.join("/")}: `, `${path.join(".")}: `])
    if (message.startsWith(name)) return bodyOf(message.slice(name.length), path);
  return message;
}

/** A pattern such as `lora/*` also matches what is below it. Without a pattern, a flag of the same name counts. */
function flagOf(path: readonly string[], vocabulary: Vocabulary): string | undefined {
  const { fields = {} } = vocabulary;
  for (const [pattern, flag] of Object.entries(fields)) {
    const parts = pattern.split("/");
    if (!parts.every((part, i) => path[i] !== undefined && (part === "*" || part === path[i]))) continue;
    const star = parts.indexOf("*");
    return star < 0 ? flag : flag.replace("*", path[star] ?? "");
  }
  const [name = ""] = path;
  const flag = name.replaceAll("_", "-");
  return path.length === 1 && ownFlags(vocabulary).includes(flag) ? `--${flag}` : undefined;
}

const SHARED = { ...SERVER_FLAGS, json: JSON_FLAG };

/** Flags that can set a field: not `--url`, the server, and not an argument of the same name. */
const ownFlags = ({ flags, takes = [] }: Vocabulary) =>
  Object.keys(flags).filter((flag) => !Object.hasOwn(SHARED, flag) && !takes.includes(flag));

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** Replaces field names inside a sentence. A name that is also an English word counts only in backticks. */
function flagsIn(text: string, vocabulary: Vocabulary): string {
  const { fields = {} } = vocabulary;
  const named = Object.entries(fields).filter(([pattern]) => !pattern.includes("*"));
  const same = ownFlags(vocabulary).map((flag): [string, string] => [flag.replaceAll("-", "_"), `--${flag}`]);
  const names = new Map([...same, ...named].map(([pattern, flag]) => [pattern.replaceAll("/", "."), flag]));
  const sorted = [...names.keys()].sort((a, b) => b.length - a.length);
  const plain = sorted.filter((name) => /[_.]/.test(name)).map((name) => `(?<![\\w./-])${escaped(name)}(?![\\w=])`);
  const quoted = sorted.map((name) => `\`${escaped(name)}\``);
  if (quoted.length === 0) return text;
  return text
    .replaceAll(new RegExp([...quoted, ...plain].join("|"), "g"), (name) => names.get(name.replaceAll("`", "")) ?? name)
    .replaceAll(/(--[\w-]+) or \1(?![\w-])/g, "$1");
}

/** Sentences that only make sense in a request. */
function phrasesIn(text: string, { flags }: Vocabulary): string {
  const sentences: [RegExp, string][] = [
    [/is required: send [^.;]+/, "is required"],
    [/(\w+) is set in the job's checkpoint: checkpoint\.\1/, "give checkpoint.$1 instead"],
    [/upload the code with POST \/v1\/code_artifacts/, "give an archive with --code FILE.tar.gz"],
  ];
  if (Object.hasOwn(flags, "replace"))
    sentences.push([/choose another name, or replace it/, "choose another with --name, or replace it with --replace"]);
  if (Object.hasOwn(flags, "name")) sentences.push([/choose another name/, "choose another with --name"]);
  return sentences.reduce((all, [sentence, words]) => all.replace(sentence, words), text);
}

const placeholder = (command: string) =>
  command.replace(/(jobs|deployments|datasets)( \w+) \{id\}/, (_, group, verb) => `${group}${verb} ${PLACE[group]}`);
const PLACE: Record<string, string> = { jobs: "JOB", deployments: "DEPLOYMENT", datasets: "DATASET" };

function commandsIn(text: string): string {
  let spoken = text;
  for (const [route, command] of ROUTES)
    spoken = spoken.replaceAll(route, (...found) => {
      const filled = command.replaceAll(/\$(\d)/g, (_, group) => String(found[Number(group)]));
      return `\`verk ${placeholder(filled)}\``;
    });
  return spoken.replaceAll(
    OTHER_ROUTE,
    (_, _method, rest) => `the API (see ${rest.split("/")[0]} at /docs of the server)`,
  );
}
