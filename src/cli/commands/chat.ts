import { createInterface } from "node:readline";
import { UsageError } from "../../lib/errors.ts";
import { command, EXIT, SERVER_FLAGS, wholeOf } from "../args.ts";
import { ApiError } from "../client.ts";
import { connect } from "../connect.ts";
import { mustFind } from "../deployments.ts";
import { note } from "../output.ts";
import { createProgress } from "../progress.ts";
import { createTalk, type Ending, type Talk, type Wishes } from "../talk.ts";

export const chat = command({
  summary: "Talk to a deployment: at the terminal, or one question through a pipe",
  takes: ["deployment"],
  flags: {
    message: { type: "string", short: "m", value: "TEXT", doc: "Ask this, print the answer and leave" },
    system: { type: "string", value: "TEXT", doc: "What the model is told before the conversation" },
    temperature: { type: "string", value: "X", doc: "0 = always the most likely word (default: the server's)" },
    "max-tokens": { type: "string", value: "N", doc: "Longest answer" },
    ...SERVER_FLAGS,
  },
  examples: [
    "verk chat demo",
    "verk chat demo -m 'Name three rivers.'",
    "git diff | verk chat demo --system 'Summarise this change.'",
  ],
  exits: { 1: "failed: there is no such deployment, or it gave no answer" },
  async run({ message, system, temperature, "max-tokens": maxTokens, ...where }, target = "") {
    const wishes = wishesOf(temperature, maxTokens);
    const { client } = await connect(where);
    const partner = await mustFind(client, target);
    const talk = createTalk(client, partner, wishes, system);
    const question = message ?? (process.stdin.isTTY ? undefined : (await Bun.stdin.text()).trim());
    if (question === undefined) return await converse(talk, partner.name);
    if (question === "") throw new UsageError("chat: nothing was asked: give -m TEXT, or a question on standard input");
    remark(await answer(talk, question, new AbortController().signal));
    return EXIT.ok;
  },
});

function wishesOf(temperature: string | undefined, maxTokens: string | undefined): Wishes {
  const heat = temperature === undefined ? undefined : Number(temperature);
  if (heat !== undefined && !(heat >= 0 && heat <= 2))
    throw new UsageError(`--temperature: expected a number from 0 to 2, not ${JSON.stringify(temperature)}`);
  const most = wholeOf("max-tokens", maxTokens);
  return { ...(heat === undefined ? {} : { temperature: heat }), ...(most === undefined ? {} : { max_tokens: most }) };
}

/** Streams one answer to standard output. How far a wake is stands on standard error until the first word comes. */
async function answer(talk: Talk, question: string, signal: AbortSignal): Promise<Ending> {
  const progress = createProgress();
  let said = "";
  try {
    const pieces = talk.ask(question, signal, (text) => {
      if (text.startsWith("waking")) progress.show(text);
    });
    for (;;) {
      const { done, value } = await pieces.next();
      if (done) return value;
      if (said === "") progress.end();
      process.stdout.write(process.stdout.isTTY ? visible(value) : value);
      said = value;
    }
  } finally {
    progress.end();
    if (said !== "" && !said.endsWith("\n")) process.stdout.write("\n");
  }
}

/** What a model says may not steer the terminal: control characters other than tab and newline are left out. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is left out
const visible = (text: string) => text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "");

function remark(ending: Ending) {
  if (ending === "length") note("(cut off at the longest answer: --max-tokens changes it)");
  if (ending === "aborted") note("(stopped)");
}

const HELP =
  "/reset begins anew, /system TEXT begins anew with that instruction, /exit leaves; Ctrl-C stops an answer.";

/** Ctrl-C while an answer comes stops it; at the prompt it leaves. */
async function converse(talk: Talk, name: string): Promise<number> {
  const lines = createInterface({ input: process.stdin, output: process.stdout, prompt: "> " });
  let answering: AbortController | undefined;
  lines.on("SIGINT", () => {
    if (answering && !answering.signal.aborted) answering.abort();
    else lines.close();
  });
  note(`Talking to ${name}. ${HELP}`);
  lines.prompt();
  for await (const line of lines) {
    const text = line.trim();
    if (text === "/exit" || text === "/quit") break;
    if (text.startsWith("/")) note(obey(talk, text));
    else if (text !== "") {
      answering = new AbortController();
      await answer(talk, text, answering.signal).then(remark, complain);
      answering = undefined;
    }
    lines.prompt();
  }
  lines.close();
  return EXIT.ok;
}

function obey(talk: Talk, text: string): string {
  const [word, ...rest] = text.split(" ");
  if (word === "/reset") {
    talk.reset();
    return "(a new conversation)";
  }
  if (word !== "/system" || rest.length === 0) return HELP;
  talk.reset(rest.join(" "));
  return "(a new conversation, with that instruction)";
}

/** One bad answer does not end the conversation. */
function complain(error: unknown) {
  if (!(error instanceof ApiError)) throw error;
  note(`verk: ${error.message}`);
}
