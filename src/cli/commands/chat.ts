import { createInterface } from "node:readline";
import { UsageError } from "../../lib/errors.ts";
import { command, EXIT, type FlagValues, SERVER_FLAGS, wholeOf } from "../args.ts";
import { ApiError, type Client } from "../client.ts";
import { connect } from "../connect.ts";
import { mustFind } from "../deployments.ts";
import { note } from "../output.ts";
import { createProgress } from "../progress.ts";
import { type ChatOptions, createTalk, type Ending, type Partner, type Talk } from "../talk.ts";
import { inCliWords } from "../text/api_words.ts";

/** Flags of a conversation. `verk run` has them too. */
export const TALK_FLAGS = {
  system: { type: "string", value: "TEXT", doc: "System prompt" },
  temperature: {
    type: "string",
    value: "X",
    doc: "Sampling temperature from 0 to 2; 0 = always the most likely token (default: the server's)",
  },
  "max-tokens": { type: "string", value: "N", doc: "Maximum length of an answer in tokens" },
} as const;

const FLAGS = {
  message: { type: "string", short: "m", value: "TEXT", doc: "Ask this question, print the answer and exit" },
  ...TALK_FLAGS,
  ...SERVER_FLAGS,
} as const;

export const chat = command({
  summary: "Chat with a deployment or an agent at the terminal, or ask one question through a pipe",
  takes: ["deployment"],
  flags: FLAGS,
  examples: [
    "verk chat demo",
    "verk chat demo -m 'Name three rivers.'",
    "git diff | verk chat demo --system 'Summarise this change.'",
  ],
  exits: { 1: "failed: there is no such deployment or agent, or it did not answer" },
  async run({ message, ...flags }, target = "") {
    const options = optionsOf(flags);
    const { client } = await connect(flags);
    return await talkWith(client, await partnerOf(client, target), {
      ...options,
      question: await questionOf("-m", message),
    });
  },
});

/** The one question of a script, or undefined for a conversation. `flag`: the one that sets it. */
export async function questionOf(flag: string, text: string | undefined): Promise<string | undefined> {
  const question = text ?? (process.stdin.isTTY ? undefined : (await Bun.stdin.text()).trim());
  if (question === "")
    throw new UsageError(`The question is empty. Give ${flag} TEXT, or a question on standard input.`);
  return question;
}

type Conversation = { question: string | undefined; system: string | undefined; sampling: ChatOptions };

/** Answers the question, or holds a conversation at the terminal. */
export async function talkWith(client: Client, partner: Partner, conversation: Conversation): Promise<number> {
  const { question, system, sampling } = conversation;
  const talk = createTalk(client, partner, sampling, system);
  if (question === undefined) return await converse(talk, partner.name);
  remark(await answer(talk, question, new AbortController().signal));
  return EXIT.ok;
}

export const partnerFor = ({ id, name }: { id: string; name: string }): Partner => ({
  name,
  path: `/v1/deployments/${id}/chat/completions`,
});

/** An agent has a name that no active deployment has. */
async function partnerOf(client: Client, target: string): Promise<Partner> {
  try {
    return partnerFor(await mustFind(client, target));
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const agent = await client
      .call<{ id: string; name: string }>("GET", `/v1/agents/${encodeURIComponent(target)}`)
      .catch(() => undefined); // no such agent, or a key without the scope: the first error says what to do
    if (!agent) throw error;
    return { name: target, path: "/v1/chat/completions" };
  }
}

/** Reads the flags before anything is sent. */
export function optionsOf(flags: FlagValues<typeof TALK_FLAGS>): Omit<Conversation, "question"> {
  const { system, temperature: text } = flags;
  const sampling: ChatOptions = {};
  const temperature = Number(text);
  if (text !== undefined && !(temperature >= 0 && temperature <= 2))
    throw new UsageError(`--temperature: expected a number from 0 to 2, not ${JSON.stringify(text)}`);
  if (text !== undefined) sampling.temperature = temperature;
  const most = wholeOf("max-tokens", flags["max-tokens"]);
  if (most !== undefined) sampling.max_tokens = most;
  return { system, sampling };
}

/** Streams one answer to standard output. Until the first token, standard error shows the progress of a wake. */
async function answer(talk: Talk, question: string, signal: AbortSignal): Promise<Ending> {
  const progress = createProgress();
  let last = "";
  try {
    const pieces = talk.ask(question, signal, (text) => {
      if (text.startsWith("waking")) progress.show(text);
    });
    for (;;) {
      const { done, value } = await pieces.next();
      if (done) return value;
      if (last === "") progress.end();
      process.stdout.write(process.stdout.isTTY ? visible(value) : value);
      last = value;
    }
  } finally {
    progress.end();
    if (last !== "" && !last.endsWith("\n")) process.stdout.write("\n");
  }
}

/** Removes control characters except tab and newline, so that a model cannot control the terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are removed here
const visible = (text: string) => text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "");

function remark(ending: Ending) {
  if (ending === "length") note("(the answer was cut off at the token limit; --max-tokens changes the limit)");
  if (ending === "aborted") note("(stopped)");
}

const HELP =
  "/reset starts a new conversation, /system TEXT starts one with this system prompt, /exit ends. Ctrl-C stops an answer.";

/** Ctrl-C stops an answer that is being streamed; at the prompt it ends the chat. */
async function converse(talk: Talk, name: string): Promise<number> {
  const lines = createInterface({ input: process.stdin, output: process.stdout, prompt: "> " });
  let answering: AbortController | undefined;
  lines.on("SIGINT", () => {
    if (answering && !answering.signal.aborted) answering.abort();
    else lines.close();
  });
  note(`Chatting with ${name}. ${HELP}`);
  lines.prompt();
  for await (const line of lines) {
    const text = line.trim();
    if (text === "/exit" || text === "/quit") break;
    if (text.startsWith("/")) note(runCommand(talk, text));
    else if (text !== "") {
      answering = new AbortController();
      await answer(talk, text, answering.signal).then(remark, printError);
      answering = undefined;
    }
    lines.prompt();
  }
  lines.close();
  return EXIT.ok;
}

function runCommand(talk: Talk, text: string): string {
  const [word, ...rest] = text.split(" ");
  if (word === "/reset") {
    talk.reset();
    return "(a new conversation)";
  }
  if (word !== "/system" || rest.length === 0) return HELP;
  talk.reset(rest.join(" "));
  return "(a new conversation with this system prompt)";
}

/** A failed answer does not end the conversation. */
function printError(error: unknown) {
  if (!(error instanceof ApiError)) throw error;
  note(`verk: ${inCliWords(error, { flags: FLAGS })}`);
}
