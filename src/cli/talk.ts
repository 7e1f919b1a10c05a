/** A conversation with a deployment or an agent: the messages so far, and each answer as it is streamed. */
import { ApiError, type Client } from "./client.ts";

export type Message = { role: "system" | "user" | "assistant"; content: string };
export type ChatOptions = { temperature?: number; max_tokens?: number };

export type Talk = {
  /** Starts a new conversation. `system` replaces the instruction. */
  reset: (system?: string) => void;
  /**
   * Streams the answer. A complete answer, or the part before `signal` aborted, stays in the conversation. A failed
   * question does not. Returns the reason why the model stopped.
   */
  ask: (question: string, signal: AbortSignal, onComment: (text: string) => void) => AsyncGenerator<string, Ending>;
};
export type Ending = "stop" | "length" | "aborted" | (string & {});

type Chunk = {
  choices?: { delta?: { content?: string | null }; finish_reason?: string | null }[];
  error?: { message: string; code: string | null };
};
/** A deployment or an agent. `path`: of its chat route. */
export type Partner = { name: string; path: string };

export function createTalk(client: Client, { name, path }: Partner, options: ChatOptions, system?: string): Talk {
  const opening = (text?: string): Message[] => (text ? [{ role: "system", content: text }] : []);
  let instruction = system;
  let messages = opening(instruction);
  return {
    reset(text = instruction) {
      instruction = text;
      messages = opening(text);
    },
    async *ask(question, signal, onComment) {
      const sent: Message[] = [...messages, { role: "user", content: question }];
      const body = { model: name, messages: sent, stream: true, ...options };
      const keep = (answer: string) => {
        messages = [...sent, { role: "assistant", content: answer }];
      };
      let answer = "";
      let ending: Ending | undefined;
      try {
        for await (const { data } of client.stream(path, signal, {
          body,
          onComment,
        })) {
          const { choices, error } = (data ?? {}) as Chunk;
          if (error) throw new ApiError(error.message, 502, error.code);
          const piece = choices?.[0]?.delta?.content;
          ending = choices?.[0]?.finish_reason ?? ending;
          if (!piece) continue;
          answer += piece;
          yield piece;
        }
      } catch (error) {
        if (!signal.aborted) throw error;
        if (answer !== "") keep(answer);
        return "aborted";
      }
      if (ending === undefined)
        throw new ApiError("The connection ended before the answer was complete. Try again.", 0);
      keep(answer);
      return ending;
    },
  };
}
