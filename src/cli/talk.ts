/** A conversation with a deployment: the words so far, and one answer after the other as it is made. */
import { ApiError, type Client } from "./client.ts";

export type Message = { role: "system" | "user" | "assistant"; content: string };
export type Wishes = { temperature?: number; max_tokens?: number };

export type Talk = {
  /** Forgets what was said; with a text, that is the instruction from now on. */
  reset: (system?: string) => void;
  /**
   * The answer, piece by piece. It stays in the conversation, also as far as it came when `signal` aborted; a question
   * that failed does not. Returns why the model stopped.
   */
  ask: (question: string, signal: AbortSignal, onComment: (text: string) => void) => AsyncGenerator<string, Ending>;
};
export type Ending = "stop" | "length" | "aborted" | (string & {});

type Chunk = {
  choices?: { delta?: { content?: string | null }; finish_reason?: string | null }[];
  error?: { message: string; code: string | null };
};
export type Partner = { id: string; name: string };

export function createTalk(client: Client, { id, name }: Partner, wishes: Wishes, system?: string): Talk {
  const opening = (text?: string): Message[] => (text ? [{ role: "system", content: text }] : []);
  let instruction = system;
  let messages = opening(instruction);
  return {
    reset(text = instruction) {
      instruction = text;
      messages = opening(text);
    },
    async *ask(question, signal, onComment) {
      const asked: Message[] = [...messages, { role: "user", content: question }];
      const body = { model: name, messages: asked, stream: true, ...wishes };
      const keep = (answer: string) => {
        messages = [...asked, { role: "assistant", content: answer }];
      };
      let answer = "";
      let ending: Ending | undefined;
      try {
        for await (const { data } of client.stream(`/v1/deployments/${id}/chat/completions`, signal, {
          body,
          onComment,
        })) {
          const { choices, error } = (data ?? {}) as Chunk;
          if (error) throw new ApiError(`${error.message} (${error.code ?? "error"})`, 502, error.code);
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
        throw new ApiError("The answer broke off: the connection ended before the model did", 0);
      keep(answer);
      return ending;
    },
  };
}
