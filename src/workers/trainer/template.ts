/** Conversations as the text that the model reads, in its own chat template. */
import { AppError } from "../../lib/errors.ts";
import type { FromTrainer, TemplateTask } from "../protocol_trainer.ts";
import type { ModelFacts } from "../serving/engine/types.ts";
import { createQuoting } from "../serving/prompt.ts";
import { createChatTemplate } from "../serving/template.ts";
import { openTokenizer } from "./data/tokenizer.ts";

type Rendered = Extract<FromTrainer, { type: "rendered" }>["results"][number];

/** Loads the vocabulary and not the weights. */
export function renderConversations({ data_dir, model_path, conversations }: TemplateTask): Rendered[] {
  const tokenizer = openTokenizer(data_dir, model_path, false);
  try {
    const { facts, tokenize } = tokenizer;
    const newQuotes = createQuoting({ tokenize, facts: facts as unknown as ModelFacts });
    const template = unlessRefused(() => createChatTemplate(facts));
    if ("error" in template) return conversations.map(() => ({ text: null, tokens: null, error: template.error }));
    return conversations.map(({ messages, tools, open }) => {
      const quotes = newQuotes();
      const shown = { messages, tools, open, variables: {} };
      const rendered = unlessRefused(() => ({
        text: template.render({ ...shown, quote: (text) => text }),
        tokens: quotes.tokenize(template.render({ ...shown, quote: quotes.quote })).length,
      }));
      return "error" in rendered ? { text: null, tokens: null, error: rendered.error } : { ...rendered, error: null };
    });
  } finally {
    tokenizer.close();
  }
}

/** A template may reject a conversation, such as two turns of the same role. */
function unlessRefused<T>(work: () => T): T | { error: string } {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { error: error.message };
  }
}
