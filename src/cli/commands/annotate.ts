import { createInterface } from "node:readline";
import { UsageError } from "../../lib/errors.ts";
import type { AnnotationItem, AnnotationQueue } from "../../resources/quality/annotation_queues/schema.ts";
import { command, EXIT, SERVER_FLAGS } from "../args.ts";
import { ApiError, type Client } from "../client.ts";
import { connect } from "../connect.ts";
import { listAll } from "../lists.ts";
import { count, note, plain, print } from "../output.ts";
import { inCliWords } from "../text/api_words.ts";

const FLAGS = {
  as: { type: "string", value: "NAME", doc: "Name of the annotator (default: the id of the API key)" },
  ...SERVER_FLAGS,
} as const;

const PATH = "/v1/annotation_queues";

export const annotate = command({
  summary: "Annotate the items of a queue at the terminal",
  takes: ["queue"],
  flags: FLAGS,
  examples: ["verk annotate tone --as ada", "verk annotate anq_…"],
  fields: { annotator: "--as" },
  exits: { 1: "failed: there is no such queue" },
  async run({ as, ...where }, target = "") {
    const { client } = await connect(where);
    const queue = await findQueue(client, target);
    const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: process.stdin.isTTY });
    const reader = lines[Symbol.asyncIterator]();
    let isOpen = true;
    lines.once("close", () => {
      isOpen = false;
    });
    const ask: Question = async (question) => {
      lines.setPrompt(question);
      if (isOpen) lines.prompt(); // A pipe may have ended while its lines wait to be read.
      const { done, value } = await reader.next();
      return done ? "/quit" : value.trim();
    };
    try {
      if (queue.instructions) note(plain(queue.instructions));
      note("/skip leaves an item to others, /quit ends.");
      const annotated = await work(client, queue, as, ask);
      note(`${count(annotated, "annotation")} sent.`);
    } finally {
      lines.close();
    }
    return EXIT.ok;
  },
});

/** Shows a question and returns the line that the user typed. */
type Question = (text: string) => Promise<string>;

async function findQueue(client: Client, target: string): Promise<AnnotationQueue> {
  const all = await listAll<AnnotationQueue>(client, PATH, ({ id }) => id);
  const matches = all.filter(({ id, name }) => id === target || name === target);
  if (matches.length === 1) return matches[0] as AnnotationQueue;
  const why = matches.length === 0 ? "There is no annotation queue" : "Several annotation queues have the name";
  const names = all.map(({ id, name }) => `${id} (${plain(name)})`).slice(0, 10);
  throw new UsageError(`${why} ${JSON.stringify(target)}. Queues: ${names.join(", ") || "none"}.`, EXIT.failed);
}

/** Returns how many annotations were sent. */
async function work(
  client: Client,
  queue: AnnotationQueue,
  annotator: string | undefined,
  ask: Question,
): Promise<number> {
  for (let sent = 0; ; ) {
    const { body } = await client.call<{ item: AnnotationItem | null }>("POST", `${PATH}/${queue.id}/next`, {
      annotator,
    });
    if (!body.item) {
      note("There is nothing left for you in this queue.");
      return sent;
    }
    show(body.item);
    const answer = await askForItem(queue, ask);
    if (answer === "/quit") return sent;
    const item = `${PATH}/${queue.id}/items/${body.item.id}`;
    if (answer === "/skip") await client.call("POST", `${item}/skip`, { annotator });
    else if (await send(client, item, { ...answer, annotator })) sent++;
  }
}

function show({ input, outputs, reference }: AnnotationItem) {
  const text = typeof input === "string" ? input : input.map(lineOf).join("\n");
  print(`\n${plain(text)}`);
  for (const [i, output] of outputs.entries()) print(`\n[${outputs.length > 1 ? i + 1 : "output"}] ${plain(output)}`);
  if (reference !== null) print(`\n[reference] ${plain(reference)}`);
}

/** Content in parts, and tool calls, are shown as JSON. */
function lineOf({ role, content, tool_calls: calls }: Record<string, unknown>): string {
  const shown = typeof content === "string" ? content : JSON.stringify(content ?? calls ?? "");
  return `${role}: ${shown}`;
}

/** False: the server rejected the annotation, and the same item comes again. */
async function send(client: Client, item: string, annotation: object): Promise<boolean> {
  try {
    await client.call("POST", `${item}/annotations`, annotation);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 422) throw error;
    note(`verk: ${inCliWords(error, { flags: FLAGS })}`);
    return false;
  }
}

type Answer = { preferred?: string; labels: Record<string, unknown>; correction?: string };
const isCommand = (text: string) => text === "/quit" || text === "/skip";
const PREFERRED: Readonly<Record<string, string>> = { "1": "first", "2": "second", t: "tie" };

async function askForItem(queue: AnnotationQueue, ask: Question): Promise<Answer | "/quit" | "/skip"> {
  const answer: Answer = { labels: {} };
  if (queue.mode === "pairwise") {
    let text = await ask("Better: 1, 2 or t (tie)? ");
    while (!isCommand(text) && !PREFERRED[text]) text = await ask("Type 1, 2, t, /skip or /quit: ");
    if (isCommand(text)) return text as "/quit";
    answer.preferred = PREFERRED[text] as string;
  }
  for (const label of queue.labels) {
    const text = await ask(questionOf(label));
    if (isCommand(text)) return text as "/quit";
    if (text !== "") answer.labels[label.name] = readValue(label, text);
  }
  if (queue.mode === "pairwise") return answer;
  const correction = await ask("Corrected answer (empty: none): ");
  if (isCommand(correction)) return correction as "/quit";
  return correction === "" ? answer : { ...answer, correction };
}

type LabelField = AnnotationQueue["labels"][number];

function questionOf(label: LabelField): string {
  const name = plain(label.name);
  if (label.type === "scale") return `${name}, ${label.min} to ${label.max}: `;
  if (label.type === "text") return `${name}: `;
  const options = label.options.map(plain).join(", ");
  if (label.type === "span") return `${name}, such as 0-5 ${plain(label.options[0] ?? "")}; separate with commas: `;
  return `${name} (${label.multiple ? "some, with commas, " : ""}of ${options}): `;
}

function readValue(label: LabelField, text: string): unknown {
  const parts = text.split(",").map((part) => part.trim());
  if (label.type === "scale") return Number(text);
  if (label.type === "choice") return label.multiple ? parts : text;
  if (label.type === "text") return text;
  return parts.map((part) => {
    const [, start, end, name] = /^(\d+)-(\d+) (.+)$/.exec(part) ?? [];
    return { start: Number(start), end: Number(end), label: name ?? part };
  });
}
