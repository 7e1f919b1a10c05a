import { createInterface } from "node:readline";
import { UsageError } from "../../lib/errors.ts";
import { command, EXIT, SERVER_FLAGS, wholeOf } from "../args.ts";
import { ApiError, type Client } from "../client.ts";
import { connect } from "../connect.ts";
import { mustFind } from "../deployments.ts";
import { note } from "../output.ts";
import { createProgress } from "../progress.ts";
import { type ChatOptions, createTalk, type Ending, type Partner, type Talk } from "../talk.ts";
import { inCliWords } from "../text/api_words.ts";

const FLAGS = {
  message: { type: "string", short: "m", value: "TEXT", doc: "Ask this question, print the answer and exit" },
  system: { type: "string", value: "TEXT", doc: "System prompt" },
  temperature: {
    type: "string",
    value: "X",
    doc: "Sampling temperature from 0 to 2; 0 = always the most likely token (default: the server's)",
  },
  "max-tokens": { type: "string", value: "N", doc: "Maximum length of an answer in tokens" },
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
  async run({ message, system, temperature, "max-tokens": maxTokens, ...where }, target = "") {
    const options = optionsOf(temperature, maxTokens);
    const { client } = await connect(where);
    const partner = await partnerOf(client, target);
    const talk = createTalk(client, partner, options, system);
    const question = message ?? (process.stdin.isTTY ? undefined : (await Bun.stdin.text()).trim());
    if (question === undefined) return await converse(talk, partner.name);
    if (question === "")
      throw new UsageError("chat: the question is empty. Give -m TEXT, or a question on standard input.");
    remark(await answer(talk, question, new AbortController().signal));
    return EXIT.ok;
  },
});

/** An agent has a name that no active deployment has. */
async function partnerOf(client: Client, target: string): Promise<Partner> {
  try {
    const { id, name } = await mustFind(client, target);
    return { name, path: `/v1/deployments/${id}/chat/completions` };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const agent = await client
      .call<{ id: string; name: string }>("GET", `/v1/agents/${encodeURIComponent(target)}`)
      .catch(() => undefined); // no such agent, or a key without the scope: the first error says what to do
    if (!agent) throw error;
    return { name: target, path: "/v1/chat/completions" };
  }
}

function optionsOf(temperature: string | undefined, maxTokens: string | undefined): ChatOptions {
  const heat = temperature === undefined ? undefined : Number(temperature);
  if (heat !== undefined && !(heat >= 0 && heat <= 2))
    throw new UsageError(`--temperature: expected a number from 0 to 2, not ${JSON.stringify(temperature)}`);
  const most = wholeOf("max-tokens", maxTokens);
  return { ...(heat === undefined ? {} : { temperature: heat }), ...(most === undefined ? {} : { max_tokens: most }) };
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
